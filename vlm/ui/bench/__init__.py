"""The tab "Benchmark": a form, a run, tables that fill, an earlier file beside them."""
