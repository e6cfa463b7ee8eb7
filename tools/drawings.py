#!/usr/bin/env python3
"""The drawings of the documents: docs/drawings/NAME.svg is made from docs/drawings/NAME.dot.

Usage: drawings.py [ROOT]         finds drawings that do not go with their source; exit 1 when there is one
       drawings.py --make [ROOT]  makes each SVG anew with graphviz (`dot`); script/drawings installs that first

The check needs no graphviz, because releases of graphviz differ in what they write. An SVG names the hash of its source, and the
hash of itself. So the check finds a source that was changed since, and an SVG that was changed by hand.

A source begins with comments: `// title: TEXT`, and one or more `// desc: TEXT`. Both go into the SVG for readers who hear it.
Colours come from STYLE alone, which has a light and a dark set. A node, an edge or a cluster chooses its colour by `class`.
"""
import hashlib
import html
import pathlib
import re
import subprocess
import sys

STYLE = """
  .paper { fill: #ffffff; }
  text { fill: #1f2328; font-family: Helvetica, Arial, sans-serif; }
  .node path, .node polygon, .node ellipse { fill: #f0f2f5; stroke: #57606a; }
  .node.good path, .node.good polygon { fill: #d5f0db; stroke: #2a7a3b; }
  .node.near path, .node.near polygon { fill: #d6f1f1; stroke: #24706f; }
  .node.kept path, .node.kept polygon { fill: #dbe9ff; stroke: #2f5fb3; }
  .node.wait path, .node.wait polygon { fill: #fff0c9; stroke: #8a6100; }
  .node.gone path, .node.gone polygon { fill: #fbdcd9; stroke: #a4302a; }
  .node.plain path, .node.plain polygon, .node.plain ellipse { fill: none; stroke: none; }
  .edge path { fill: none; stroke: #57606a; }
  .edge polygon, .edge ellipse { fill: #57606a; stroke: #57606a; }
  .cluster path, .cluster polygon { fill: none; stroke: #8c959f; }
  @media (prefers-color-scheme: dark) {
    .paper { fill: #14181d; }
    text { fill: #e6edf3; }
    .node path, .node polygon, .node ellipse { fill: #2b3139; stroke: #9aa4af; }
    .node.good path, .node.good polygon { fill: #1c4427; stroke: #6fca84; }
    .node.near path, .node.near polygon { fill: #123f42; stroke: #68c3c1; }
    .node.kept path, .node.kept polygon { fill: #1d3763; stroke: #86b1f5; }
    .node.wait path, .node.wait polygon { fill: #4d3a08; stroke: #dcb14a; }
    .node.gone path, .node.gone polygon { fill: #59201c; stroke: #f0938c; }
    .node.plain path, .node.plain polygon, .node.plain ellipse { fill: none; stroke: none; }
    .edge path { stroke: #9aa4af; }
    .edge polygon, .edge ellipse { fill: #9aa4af; stroke: #9aa4af; }
    .cluster path, .cluster polygon { stroke: #6b7580; }
  }
"""
FOLDER = pathlib.PurePath('docs/drawings')
HEAD = re.compile(r'\A<!-- Made from (\S+) by script/drawings; do not edit\. source ([0-9a-f]{64}) drawing ([0-9a-f]{64}) -->\n')
EMBEDDED = re.compile(r'!\[([^\]]*)\]\(([^)\s]+\.svg)\)')


def sha(text):
    return hashlib.sha256(text.encode()).hexdigest()


def source_sha(source):
    return sha(source + STYLE)


def said(source, word):
    """What the comments `// word: TEXT` at the top of a source say, as one text."""
    return ' '.join(re.findall(rf'^// {word}: *(.+?) *$', source, re.M))


def draw(source):
    """The SVG of a source, without its first line."""
    done = subprocess.run(['dot', '-Tsvg'], input=source, capture_output=True, text=True, check=False)
    if done.returncode != 0 or done.stderr.strip():
        sys.exit(f'dot: {done.stderr.strip()}')
    svg = done.stdout[done.stdout.index('<svg'):]
    width, height = re.search(r'<svg width="(\d+)pt" height="(\d+)pt"', svg).groups()
    box = re.search(r'viewBox="([^"]+)"', svg).group(1)
    body = svg[svg.index('>') + 1:]
    body = re.sub(r'<!--.*?-->\n?', '', body, flags=re.S)
    body = re.sub(r'<title>.*?</title>\n?', '', body, flags=re.S)        # names of nodes: noise for who hears it
    body = re.sub(r' (?:xlink:title|id|font-family)="[^"]*"', '', body)
    body = re.sub(r'<polygon fill="white" stroke="(?:transparent|none|white)" points="[^"]*"/>\n', '', body, count=1)
    return (f'<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink" role="img" '
            f'aria-labelledby="title desc" width="{width}pt" height="{height}pt" viewBox="{box}">\n'
            f'<title id="title">{html.escape(said(source, "title"))}</title>\n'
            f'<desc id="desc">{html.escape(said(source, "desc"))}</desc>\n'
            f'<style>{STYLE}</style>\n<rect class="paper" width="100%" height="100%" rx="6"/>{body}')


def make(root):
    for path in sorted((root / FOLDER).glob('*.dot')):
        source = path.read_text()
        svg = draw(source)
        head = f'<!-- Made from {path.name} by script/drawings; do not edit. source {source_sha(source)} drawing {sha(svg)} -->\n'
        path.with_suffix('.svg').write_text(head + svg)
        print(FOLDER / path.with_suffix('.svg').name)


def check_source(path):
    """The faults of one source and its SVG."""
    source = path.read_text()
    for word in ('title', 'desc'):
        if not said(source, word):
            yield f'{FOLDER / path.name}:1: has no line "// {word}: ..."'
    svg_path = path.with_suffix('.svg')
    where = f'{FOLDER / svg_path.name}:1:'
    if not svg_path.exists():
        yield f'{where} is missing; run script/drawings'
        return
    text = svg_path.read_text()
    head = HEAD.match(text)
    if head is None or head[1] != path.name:
        yield f'{where} its first line is not that of script/drawings'
    elif head[2] != source_sha(source):
        yield f'{where} {path.name} was changed since, or the colours were; run script/drawings'
    elif head[3] != sha(text[head.end():]):
        yield f'{where} was changed by hand; change {path.name} and run script/drawings'


def check_shown(root):
    """The drawings that no document shows, and the places that show a drawing without an alternative text."""
    shown = set()
    for path in sorted([*root.glob('*.md'), *root.glob('docs/**/*.md')]):
        for number, line in enumerate(path.read_text().splitlines(), 1):
            for alt, target in EMBEDDED.findall(line):
                shown.add((path.parent / target).resolve())
                if not alt.strip():
                    yield f'{path.relative_to(root)}:{number}: shows {target} without a text in its place'
    for path in sorted((root / FOLDER).glob('*.svg')):
        if not path.with_suffix('.dot').exists():
            yield f'{FOLDER / path.name}:1: has no source {path.with_suffix(".dot").name}'
        elif path.resolve() not in shown:
            yield f'{FOLDER / path.name}:1: no document shows it'


def check(root):
    wrong = [line for path in sorted((root / FOLDER).glob('*.dot')) for line in check_source(path)]
    wrong += check_shown(root)
    for line in wrong:
        print(line)
    return 1 if wrong else 0


if __name__ == '__main__':
    words = sys.argv[1:]
    making = words[:1] == ['--make']
    tree = pathlib.Path(words[making] if len(words) > making else pathlib.Path(__file__).parent.parent).resolve()
    sys.exit(make(tree) if making else check(tree))
