"""Parts of `bench_db` and `fuzz_tools`: corpus, reference form of the database, searches, random tool calls."""
