"""From records to what happened: operations, what the plugins changed, what breaks the spec, and the views of it."""
