"""Parts of `bench_db` and `fuzz_tools`: a made-up corpus, the reference form of the database, questions and tool calls."""
