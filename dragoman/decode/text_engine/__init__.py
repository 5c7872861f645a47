"""Translates with an engine that takes text: an LLM or an API over HTTP, and checks what it says.

    lines → segments → asked in batches → checked → asked again, with what was broken named
          → asked in protected parts → handed to the package's model, and marked

Nothing of this is imported when the package's own model translates.
"""
