"""What stands in the wiki: real edits through its api.php, the same at each fill.

Pages come from MediaWiki's own change log, which Debian's package ships as wikitext: one page a release, grown over a
few revisions, each calling two templates; one template is edited at the very end, so that the pages that include it are
rendered again without a new revision of their own. A few pages beside them have names and texts that are easy to
get wrong.
"""
import gzip
import io
import pathlib
import random
import re
import subprocess
import tarfile
import tempfile

REVISIONS_MAX = 5
SEED = 1

BUG = '[https://phabricator.wikimedia.org/T{{{1}}} T{{{1}}}]'
TEMPLATES = {
    'Template:Bug': BUG,
    'Template:Release box': '{| class="wikitable" style="float:right"\n! colspan=2 | {{PAGENAME}}\n|-\n| Lines || '
                            '{{{lines|?}}}\n|-\n| Previous || [[{{{prev|}}}]]\n|}',
    'Template:Note': "<div class=\"note\">Note: ''{{{1}}}''</div>",
}
ODD = {
    'A & B? 100%': "Ampersand, question mark, percent: [[C++/Notes#Part two|over there]].\n",
    'C++/Notes': '== Part one ==\n{{Note|first}}\n\n== Part two ==\n* one\n** two\n# three\n',
    'Übergröße': "Umlauts, \u4e2d\u6587, \U0001f600 and a combined e\u0301.\n",
    'Help:Formatting': "'''bold''' ''italic'' <nowiki>[[no link]]</nowiki><ref>A note.</ref>\n\n"
                       '{| class="wikitable"\n|-\n! a !! b\n|-\n| 1 || {{Note|in a cell}}\n|}\n\n'
                       '<syntaxhighlight lang="c">int main(void) { return 0; }</syntaxhighlight>\n\n<references />\n',
    'Old name': '#REDIRECT [[C++/Notes]]\n',
    'Unclosed': "'''bold to the end\n{| class=x\n| cell\n<div>open\n",
    'Talk:C++/Notes': '== A question ==\nWhy? ~~~~~\n',
    'Edited page': 'The first paragraph says something.\n\n{{Note|from a template}}\n\n== Section one ==\nText of the '
                   'first section.\n\n== Section two ==\nText of the second section, with a [[C++/Notes|link]].\n',
}


def _changelog(file):
    """Its text; from a package fetched anew where the system leaves documentation out."""
    if file.exists():
        return gzip.decompress(file.read_bytes()).decode('utf-8', 'replace')
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(['apt-get', '-qq', 'download', 'mediawiki'], cwd=folder, check=True)
        package, = pathlib.Path(folder).glob('mediawiki_*.deb')
        files = subprocess.run(['dpkg-deb', '--fsys-tarfile', package], stdout=subprocess.PIPE, check=True).stdout
        with tarfile.open(fileobj=io.BytesIO(files)) as tar:
            return gzip.decompress(tar.extractfile(f'.{file}').read()).decode('utf-8', 'replace')


def _releases(changelog):
    """(title, lines) of each release."""
    found, title, lines, seen = [], None, [], {}
    for line in changelog.splitlines(keepends=True) + ['= MediaWiki 0 =\n']:
        heading = re.match(r'^={1,2} *(MediaWiki [0-9][^=]*?) *={1,2}\s*$', line)
        if not heading:
            lines.append(line)
            continue
        if title and len(lines) > 5:
            seen[title] = seen.get(title, 0) + 1
            found.append((title if seen[title] == 1 else f'{title} ({seen[title]})', lines))
        title, lines = heading.group(1).replace('#', '').strip(), []
    return found


def _wikify(lines):
    """Bug numbers become calls of a template, names of settings code."""
    text = re.sub(r'\(T(\d{4,6})\)', r'{{Bug|\1}}', ''.join(lines))
    return re.sub(r'(?<![\w|{\[])\$(wg\w+)', r'<code>$\1</code>', text)


def fill(wiki, pages, say):
    """Fills wiki with at least pages pages, its Main Page among them."""
    rng = random.Random(SEED)
    say('writing templates and odd pages')
    for title, text in {**TEMPLATES, **ODD}.items():
        wiki.edit(title, text, 'seed')
    releases = _releases(_changelog(wiki.mediawiki.changelog))[:max(0, pages - len(TEMPLATES) - len(ODD) - 1)]
    previous = 'Main Page'
    for index, (title, lines) in enumerate(releases):
        if index % 50 == 0:
            say(f'writing releases {index + 1} to {min(index + 50, len(releases))} of {len(releases)}, a page each, with revisions')
        count = max(1, min(REVISIONS_MAX, len(lines) // 4))
        for revision in range(1, count + 1):
            cut = len(lines) if revision == count else max(4, len(lines) * revision // count - rng.randrange(3))
            wiki.edit(title, f'{{{{Release box|lines={cut}|prev={previous}}}}}\n{_wikify(lines[:cut])}\n'
                             '[[Category:Releases]]\n', f'seed {revision} of {count}')
        previous = title
    wiki.edit('Edited page', ODD['Edited page'].replace('says something', 'says something else'), 'for a diff to show')
    wiki.edit('Template:Bug', BUG.replace(' T{', ' task T{'), 'every page that includes it is rendered again')
