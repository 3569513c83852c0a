"""Facts about GPUs, drivers, clouds, engines and models as data files with source and date; loaders only, no decisions.

`load()` gives a `Facts` whose tables are read when first used; `load(folder)` lays a user's folder over ours: files have
the same names, a row with the same key replaces ours, other rows are added. Nothing here reads the environment, and code
outside names no GPU, model or cloud: it asks the tables.

A new table takes four steps:

1. `data/<file>.csv` (flat) or `data/<file>.yaml` (structured: `source:`, `checked:`, `rows:`).
2. A module with a frozen dataclass for a row (fields = columns, `source: Text` and `checked: Date` among them; types and
   `msgspec.Meta` are the schema; a default makes a column optional; a tuple is a list, in CSV separated by `;`) and
   `TABLE = Table("<file>", Row, key=("name",))`.
3. `TABLE` in `store.Facts.TABLES`, and a cached property there that makes the lookups (a class around the rows).
4. Nothing else: reading, checking with file and line, overlay, caching and the test of every file follow from `TABLES`.
"""

from ragstow.facts.store import Facts, load

__all__ = ["Facts", "load"]
