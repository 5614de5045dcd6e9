"""What Turnwright costs, against a bare loop in the same run: `python -m bench`. See docs/how-to/benchmarks.md."""
