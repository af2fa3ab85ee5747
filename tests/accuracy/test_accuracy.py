"""What an accuracy run must fulfil in every scenario: all samples answered, scores at the gates."""

from mlperf_suite.rules import accuracy_rules, validity


def test_accuracy_every_sample(accuracy_run):
    """Every sample that LoadGen has was answered."""
    accuracy_run.obeys(validity.every_sample)


def test_accuracy_whole_dataset(accuracy_run):
    """The run takes the benchmark's whole data set."""
    accuracy_run.obeys(validity.whole_dataset)


def test_accuracy_generation(accuracy_run):
    """Answers are generated with the benchmark's settings, and none comes from a cache."""
    accuracy_run.obeys(validity.generation)


def test_accuracy_answers(accuracy_run):
    """Each answer has tokens, all of them the model's, and they are not one answer for all."""
    accuracy_run.obeys(accuracy_rules.answers)


def test_score(accuracy_run, metric):
    """Each accuracy metric of the benchmark reaches its share of the reference accuracy."""
    accuracy_run.obeys(accuracy_rules.gate_name(metric))
