"""All that is known of one vLLM release on CPUs: the plugin that its servers load there."""
