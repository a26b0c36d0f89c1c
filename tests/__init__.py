from pathlib import Path

ROOT = Path(__file__).parents[1]
"""The checkout."""


def documents() -> str:
    """README and every page of docs/, as one text."""
    pages = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    return "\n".join(page.read_text(encoding="utf-8") for page in pages)
