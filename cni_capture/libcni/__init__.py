"""libcni 1.3 over again: a chain is run, its plugins are understood, and failures are worded, as there.

`chain` is what the rest of the project uses. Below it are `network` (what a conflist says), `attachments` (what is
remembered from ADD to DEL), `invoke` (a plugin found and run), `result` (what it answered, in the shape of each spec
version), and at the bottom Go itself, as far as it shows: `gojson` and `gotypes`, how it reads and writes JSON.
"""
