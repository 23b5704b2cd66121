# SPDX-License-Identifier: Apache-2.0
"""How do documents become a site that has all they link to? Hooks of mkdocs (mkdocs.yml).

Pages link to files of the checkout that are outside of docs/, such as samples: these become files of the site, below
`source/`. A link to a folder is shown as its text. A link to what does not exist is a warning, which --strict makes an error.
"""

import logging
import os
import re

from mkdocs.structure.files import File, InclusionLevel

log = logging.getLogger("mkdocs.hooks.docs")
link = re.compile(r"(?<!!)\[([^\]]*)\]\(((?:\.\./)+[^)#\s]*)(#[^)\s]*)?\)")


def on_files(files, config):
    """Adds pages that mkdocs.yml does not list to the last section of the navigation."""
    if not config.nav:
        return files
    listed = set(pages(config.nav))
    more = sorted(page.src_uri for page in files.documentation_pages() if page.src_uri not in listed)
    if more:
        config.nav.append({"More": more})
    return files


def pages(entries):
    """The files that a part of the navigation lists."""
    for entry in entries:
        if isinstance(entry, str):
            yield entry
        else:
            for value in entry.values():
                yield from pages(value if isinstance(value, list) else [value])


def on_page_markdown(markdown, page, config, files):
    """Makes what a page links to outside of docs/ a part of the site."""
    folder = os.path.dirname(page.file.src_uri)
    root = os.path.dirname(config.docs_dir)

    def replace(found):
        text, path, anchor = found.groups()
        target = os.path.normpath(os.path.join("docs", folder, path))
        if target == "docs" or target.startswith("docs/"):
            return found.group(0)  # mkdocs checks it
        there = os.path.join(root, target)
        if target.startswith("..") or not os.path.exists(there):
            log.warning("%s links to %s, which does not exist", page.file.src_uri, path)
            return text
        if os.path.isdir(there):
            return text
        # Markdown is not a page here: its own links are for where it is.
        name = "source/" + target + (".txt" if target.endswith(".md") else "")
        if files.get_file_from_path(name) is None:
            files.append(File.generated(config, name, abs_src_path=there, inclusion=InclusionLevel.INCLUDED))
        if anchor and not anchored(there, anchor[1:]):
            log.warning("%s links to %s, which has no %s", page.file.src_uri, path, anchor)
        return f"[{text}]({os.path.relpath(name, folder or '.')})"

    return link.sub(replace, markdown)


def anchored(path, anchor):
    """Whether a file of Markdown has a heading with this anchor, as GitHub makes them, or an anchor of its own."""
    with open(path, encoding="utf-8") as file:
        text = file.read()
    headings = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    return f'<a id="{anchor}">' in text or anchor in [re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings]
