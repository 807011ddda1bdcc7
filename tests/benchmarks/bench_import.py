"""`import companion` against `import torch`, each in a new process."""

from measure import output_of, report, setting

TIMED = (
    "import time; t = time.perf_counter(); import {}; print(time.perf_counter() - t)"
)
ROUNDS = 11


def main():
    print(setting())
    for module in ("companion", "companion.models"):
        pairs = [
            [output_of("-c", TIMED.format(name)) for name in (module, "torch")]
            for _ in range(ROUNDS)
        ]
        ours, torch_alone = zip(*pairs[1:], strict=True)  # the first reads from disk
        report(
            f"import {module}",
            list(ours),
            list(torch_alone),
            "s",
            "at least 0.91, that is 1 / 1.1, for companion alone",
        )


if __name__ == "__main__":
    main()
