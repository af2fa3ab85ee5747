"""MMLU's subjects, the domain of each, and published scores of models."""

from __future__ import annotations

from collections.abc import Mapping

HUB_REPOSITORY = "cais/mmlu"
LETTERS = ("A", "B", "C", "D")
CHANCE = 25.0
"""The score of random guessing, in percent."""
STANDARD_SHOTS = 5

DOMAINS: Mapping[str, tuple[str, ...]] = {
    "STEM": (
        "abstract_algebra",
        "anatomy",
        "astronomy",
        "college_biology",
        "college_chemistry",
        "college_computer_science",
        "college_mathematics",
        "college_physics",
        "computer_security",
        "conceptual_physics",
        "electrical_engineering",
        "elementary_mathematics",
        "high_school_biology",
        "high_school_chemistry",
        "high_school_computer_science",
        "high_school_mathematics",
        "high_school_physics",
        "high_school_statistics",
        "machine_learning",
    ),
    "Humanities": (
        "formal_logic",
        "high_school_european_history",
        "high_school_us_history",
        "high_school_world_history",
        "international_law",
        "jurisprudence",
        "logical_fallacies",
        "moral_disputes",
        "moral_scenarios",
        "philosophy",
        "prehistory",
        "professional_law",
        "world_religions",
    ),
    "Social Sciences": (
        "econometrics",
        "high_school_geography",
        "high_school_government_and_politics",
        "high_school_macroeconomics",
        "high_school_microeconomics",
        "high_school_psychology",
        "human_sexuality",
        "professional_psychology",
        "public_relations",
        "security_studies",
        "sociology",
        "us_foreign_policy",
    ),
    "Other": (
        "business_ethics",
        "clinical_knowledge",
        "college_medicine",
        "global_facts",
        "human_aging",
        "management",
        "marketing",
        "medical_genetics",
        "miscellaneous",
        "nutrition",
        "professional_accounting",
        "professional_medicine",
        "virology",
    ),
}
"""lm-eval's grouping (tasks/mmlu/default), under the names used in the results."""

DOMAIN_OF: Mapping[str, str] = {
    subject: domain for domain, subjects in DOMAINS.items() for subject in subjects
}
SUBJECTS: tuple[str, ...] = tuple(sorted(DOMAIN_OF))

PUBLISHED_SCORES: Mapping[str, tuple[float, str]] = {
    "meta-llama/Llama-3.1-8B-Instruct": (69.4, "Meta's model card, 5 shots, macro average"),
    "meta-llama/Llama-3.1-8B": (66.7, "Meta's model card, 5 shots, macro average"),
}
"""By model, the score in percent and its source, for models that score far above chance."""
