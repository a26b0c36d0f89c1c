"""Any registered Gymnasium env as episodes of messages and tool calls."""
