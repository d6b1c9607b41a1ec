"""The OpenAI-compatible server: requests in, streamed answers out, metrics, the chat page."""
