"""Small complete programs that use email-rl from outside; the tests run each."""
