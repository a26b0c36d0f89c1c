"""Who answers at a turn: the policy, a tool loop, a function, a program, a script; and the endpoint that records."""
