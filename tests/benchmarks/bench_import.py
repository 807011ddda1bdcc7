"""`import companion` against `import torch`, each in a Python of its own."""

from measure import output_of, report, setting

TIMED = (
    "import time; t = time.perf_counter(); import {}; print(time.perf_counter() - t)"
)


def main():
    print(setting())
    for module in ("companion", "companion.attention.base"):
        pairs = [
            (
                output_of("-c", TIMED.format(module)),
                output_of("-c", TIMED.format("torch")),
            )
            for _ in range(11)
        ]
        ours, torch_alone = zip(*pairs[1:], strict=True)
        report(
            f"import {module}",
            list(ours),
            list(torch_alone),
            "s",
            "at least 0.91, that is 1 / 1.1",
        )


if __name__ == "__main__":
    main()
