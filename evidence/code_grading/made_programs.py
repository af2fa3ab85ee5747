"""Programs that answers hold, with their tests; and pairs of mathematical answers.

None writes to open files or fills the memory: the official scripts run them without a sandbox.
"""

from __future__ import annotations

MBXP_CHECK = "\n\ndef check(candidate):\n    assert candidate(2, 3) == 5\n"
MBXP_PYTHON = [
    ("python", "def add(a, b):\n    return a + b\n", MBXP_CHECK),
    ("python", "def add(a, b):\n    return a - b\n", MBXP_CHECK),
    ("python", "def add(a, b):\n    return (a\n", MBXP_CHECK),
    ("python", "def add(a, b):\n    import os\n    os._exit(0)\n", MBXP_CHECK),
    ("python", "def add(a, b):\n    while True: pass\n", MBXP_CHECK),
    (
        "python",
        (
            "def add(a, b):\n    while True:\n        try:\n            while True: pass\n"
            "        except: pass\n"
        ),
        MBXP_CHECK,
    ),
    ("python", "def add(a, b):\n    input()\n    return a + b\n", MBXP_CHECK),
    ("python", "def add(a, b):\n    print('x' * 10**6, '\\udcff')\n    return a + b\n", MBXP_CHECK),
    (
        "python",
        (
            "def add(a, b):\n    import threading, time\n"
            "    threading.Thread(target=time.sleep, args=(600,)).start()\n    return a + b\n"
        ),
        MBXP_CHECK,
    ),
    ("python", "def add(a, b):\n    import os\n    os.fork()\n    return a + b\n", MBXP_CHECK),
    ("go", "package main", ""),
]
"""Language, program and tests."""
MBXP_OTHERS = {
    "javascript": (
        "\nrequire('assert').equal(add(2, 3), 5);\n",
        [
            "function add(a, b) { return a + b; }\n",
            "function add(a, b) { return a - b; }",
            "function add(a, b) { return (",
            "process.exit(0)",
            "process.exit(3)",
            "function add(a, b) { process.stdout.write(Buffer.from([255])); return a + b; }",
            "function add(a, b) { console.log('ü'.repeat(2000000)); return a + b; }",
        ],
    ),
    "cpp": (
        "\nint main() { return add(2, 3) == 5 ? 0 : 1; }\n",
        [
            "int add(int a, int b) { return a + b; }\n",
            "int add(int a, int b) { return a; }",
            "int add(",
        ],
    ),
    "php": (
        "\nif (add(2, 3) !== 5) { throw new Exception('wrong'); }\n",
        [
            "<?php\nfunction add($a, $b) { return $a + $b; }\n",
            "<?php\nfunction add($a, $b) { return 1; }",
        ],
    ),
    "ruby": (
        "\nraise 'wrong' unless add(2, 3) == 5\n",
        ["def add(a, b)\n  a + b\nend\n", "def add(a, b)\n  a\nend\n"],
    ),
    "typescript": (
        "\nrequire('assert').equal(add(2, 3), 5);\n",
        [
            "const add = (a: number, b: number): number => { return a + b; }\n",
            "const add = (a, b) => a;",
        ],
    ),
}
"""By language, the tests and the programs."""
ENDLESS = "while True: pass"
LIVE_CODE_BENCH = {
    "sum": [
        "import sys\ndata = sys.stdin.read().split()\nprint(sum(map(int, data)))",
        (
            "def main():\n    print(reduce(operator.add, map(int, stdin.read().split())))\n"
            "if __name__ == '__main__':\n    main()"
        ),
        (
            "import sys, numpy as np\ndata = sys.stdin.buffer.read().split()\n"
            "print(np.array(data, dtype=int).sum())"
        ),
        "import sys\ndata = sys.stdin.read().split()\nprint(sum(map(int, data)))\nexit()",
        "import sys\ndata = sys.stdin.read().split()\nprint(sum(map(int, data)))\nprint(0)",
        "import sys\ndata = sys.stdin.read().split()\nprint(sum(map(int, data)))\n1 / 0",
        "print(",
        (
            "import os\n"
            "found = [open(f'/tmp/work/{name}').read() for name in os.listdir('/tmp/work')]\n"
            "print('15.0' if any('15.0' in text for text in found) else '')"
        ),
        ENDLESS,
    ],
    "add": [
        "class Solution:\n    def addUp(self, a: List[int], b: int): return a + b",
        "def addUp(a, b): return a + b",
        "def addUp(a, b): return (*a, *b) if isinstance(a, list) else a + b",
        "def addUp(a, b):\n    import os\n    os._exit(0)",
        "def addUp(a, b): raise SystemExit",
        "def addUp(a, b):\n    for _ in range(10**5): a = [a]\n    return a",
    ],
}
"""By problem, its programs; the first is right."""
MATHEMATICS = [
    ("42", "42"),
    ("\\dfrac12", "\\frac{1}{2}"),
    ("0.5", "\\frac{1}{2}"),
    ("10,\\!000", "10000"),
    ("\\text{Yes}", "yes"),
    ("90^\\circ", "90"),
    ("5\\text{ cm}", "5"),
    ("\\$5.00", "5"),
    ("(x+1)^2", "x^2+2x+1"),
    ("2\\sqrt2", "\\sqrt{8}"),
    ("\\frac{1}{\\sqrt{3}}", "\\frac{\\sqrt{3}}{3}"),
    ("7\\frac{3}{4}", "\\frac{31}{4}"),
    ("(0.5, 1.5)", "(\\frac{1}{2},\\frac{3}{2})"),
    ("\\left[1,2\\right]", "[1,2]"),
    ("x^{2}", "xx"),
    ("5!", "120.5-0.5"),
    ("42", "43"),
    ("\\frac{2}{4}", "\\frac{1}{2}"),
    ("(1,2]", "(1,2)"),
    ("(2,1)", "(1,2)"),
    ("(1,2,3)", "(1,2)"),
    ("1.5 million", "1500000"),
    ("2^{10}", "1024"),
    ("", "0"),
    ("", ""),
    ("\\text{}", "\\text{a}"),
    ("0.333", "1/3"),
]
"""Answers and their references."""
