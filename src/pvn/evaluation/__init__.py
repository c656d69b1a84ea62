"""How well agents fly and how fast everything is: metrics, intervals, results, benchmarks."""
