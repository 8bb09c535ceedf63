"""Writes HTML elements."""

from __future__ import annotations

from html import escape

from hatch_tensoracle.report import plain

__all__ = ["element", "tag", "text"]


def element(name: str, /, *content: str, **attributes: str) -> str:
    """An element around markup."""
    return f"{tag(name, **attributes)}{''.join(content)}</{name}>"


def tag(name: str, /, **attributes: str) -> str:
    """A tag. Attributes are text: `class_` and `aria_hidden` are written `class` and `aria-hidden`."""
    written = "".join(f' {key.rstrip("_").replace("_", "-")}="{text(value)}"' for key, value in attributes.items())
    return f"<{name}{written}>"


def text(content: object) -> str:
    """Text as markup, with control characters as escapes."""
    return escape(plain(str(content)))
