#!/usr/bin/env python3
"""Goal: words.py and links.py see what they are for, and nothing else. Method: plant one offence at a time in a small tree
that is clean."""
import contextlib
import io
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest
import unittest.mock

import links
import words

TOOLS = pathlib.Path(__file__).resolve().parent
LONG = ' '.join(['word'] * 26)
FITS = ' '.join(['word'] * 25)
CLEAN = {
    'README.md': '# A tree\n\nThe [manual](docs/api.md#2-pages) names each route. `src/base/str.h` has text.\n',
    'docs/api.md': '# API\n\n## 2. Pages\n\nThe server answers.\n\n**Old answers.** A page has an age.\n\n## Keys `a` & roles\n',
    'docs/adr/0001-why.md': '# 1. Why\n\nThe folder src/gone has moved.\n',
    'src/base/str.h': '/* str.h - text. docs/api.md, "Pages", says how long; docs/adr/0001 says why. */\n',
    'tools/words_clean.txt': '# files\nREADME.md\ndocs/quickstart/*.md\n',
}


def run(tool, changes, *names, spelling=False):
    """(exit code, output) of the tool on the clean tree with changes {path: text}: on the tree, or on these files of it.
    Most runs look no word up: the program for that takes its time."""
    with tempfile.TemporaryDirectory() as folder:
        for name, text in {**CLEAN, **changes}.items():
            path = pathlib.Path(folder) / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        said, argv, here = io.StringIO(), sys.argv, os.getcwd()
        try:
            os.chdir(folder)
            sys.argv = [tool.__name__, *(names or [folder])]
            looked_up = contextlib.nullcontext() if spelling else unittest.mock.patch.object(words.shutil, 'which', return_value=None)
            with looked_up, contextlib.redirect_stdout(said):
                return tool.main(), said.getvalue()
        finally:
            sys.argv = argv
            os.chdir(here)


class Words(unittest.TestCase):
    def fails(self, text, *places, name='x.md', spelling=False):
        code, output = run(words, {name: text}, name, spelling=spelling)
        self.assertEqual(code, 1, output)
        for place in places:
            self.assertIn(place, output)
        return output

    def passes(self, text, name='x.md', spelling=False):
        code, output = run(words, {name: text}, name, spelling=spelling)
        self.assertEqual(code, 0, output)

    def test_a_sentence_has_25_words(self):
        self.passes(f'{FITS}. W{FITS[1:]}.\n')
        self.fails(f'One fact. W{LONG[1:]}.\n', 'x.md:1: 26 words, 25 are the limit: ')
        self.fails(f'# Title\n\nFirst line\nof two. The\n{LONG}.\n', 'x.md:4: 27 words')

    def test_what_ends_a_sentence(self):
        half = ' '.join(['word'] * 20)
        for ending in ('. ', '? ', '! ', '.) ', '." ', '.** '):
            self.passes(f'{half}{ending}Word {half}.\n')
        for beginning in ('`code`', '/readyz', 'src/base/str.h', 'docs/api.md', 'page_get()', '404', '"Quote', '(Or'):
            self.passes(f'{half}. {beginning} {half}.\n')
        for middle in ('e.g. Word', 'i.e. Word', '; word', ': Word', 'St. Word'):
            self.fails(f'{half} {middle} {half}.\n', 'x.md:1: 41 words' if middle[0] in ';:' else 'x.md:1: 42 words')

    def test_code_links_and_addresses_are_one_word(self):
        few = ' '.join(['word'] * 23)
        self.passes(f'{few} `a span of code with many words` ``two ` ticks``.\n')
        self.passes(f'{few} [two words](docs/a%20file.md#with-an-anchor "and a title").\n')
        self.fails(f'{few} [three words here](docs/api.md).\n', '26 words')
        self.passes(f'{few} https://a.test/b,c <https://d.test/e>.\n')
        self.passes(f'{few} <b>one</b> two <!-- three four -->.\n')

    def test_code_is_not_read(self):
        for code in (f'    {LONG}.', f'```\n{LONG}.\n```', f'~~~ sh\n{LONG}.\n\n{LONG}.\n~~~', f'<!--\n{LONG}.\n-->',
                     f'- Item:\n\n      {LONG}.', f'1. Item:\n\n   ```\n   {LONG}.\n   ```'):
            self.passes(f'Text.\n\n{code}\n\nText.\n')

    def test_items_and_cells_are_texts_of_their_own(self):
        self.passes(f'{FITS}\n- {FITS}\n- {FITS}\n  - {FITS}\n\n1. {FITS}\n2. {FITS}\n')
        self.passes(f'| {FITS} | `a | b` {FITS[5:]} |\n| --- | ---: |\n| {FITS} | {FITS} |\n')
        self.passes(f'> {FITS}\n\n# {FITS}\n{FITS}\n')
        self.fails(f'- One\n- Two\n  {LONG}\n', 'x.md:2: 27 words')
        self.fails(f'- One\n\n  {LONG}\n\n      code\n', 'x.md:3: 26 words')
        self.fails(f'1. One\n   - Two\n\n     {LONG}\n', 'x.md:4: 26 words')
        self.fails(f'| a | b |\n| --- | --- |\n| a | {LONG} |\n', 'x.md:3: 26 words')

    def test_knots(self):
        for knot in ('What cannot be made is told.', 'Who asks gets it: at once.', 'Whoever follows, reads.', 'It is that which counts.',
                     'The event goes to who follows.', 'Those that wait get it.', 'It takes one that is free.', 'The lock is held, so that it stays.',
                     'It loses nothing that was.', 'The page is rendered anew.', 'It is kept for ever.', 'All but for one stay.',
                     'No later than one that ends.', 'It stays where it is until its end.', 'That it says that, or that.',
                     'It is not here, not there, nor lost.', 'A source file, as `str.c`, is built.', 'You simply start it.'):
            self.fails(f'Text.\n{knot}\n', 'x.md:2: ', knot)
        self.assertIn('clause', self.fails('What cannot be made is told.\n'))

    def test_what_is_no_knot(self):
        self.passes('# What it does\n\nWhat is a render? A cell says:\n\n| what the wiki answered | `so that it` |\n| --- | --- |\n')
        self.passes('The server stores the page. It answers, as `page_get` does. One worker is free.\n')
        self.passes('The code `it it it` and `that which` is no prose.\n')

    def test_each_knot_has_a_reason(self):
        patterns, spelt = words.told_words()
        self.assertTrue(patterns and spelt)
        for pattern, reason in patterns:
            self.assertGreater(len(reason), 1, pattern)

    def test_comments_of_c(self):
        self.passes(f'/* {FITS} */\nint a; /* {FITS} */\nint b; // {FITS}\nconst char *c = "/* {LONG} */";\n', name='x.h')
        self.passes(f'int word, {LONG.replace(" ", ", ")};\n', name='x.c')
        self.fails(f'/* x.h - a header.\n *\n * Text. W{LONG[1:]}\n * more. */\n', 'x.h:3: 27 words', name='x.h')
        self.fails(f'/* What is kept is\n * told. */\n', 'x.c:1: "What is kept is told.": a clause', name='x.c')

    def test_rows_and_sketches_in_comments(self):
        self.passes(f'/* Joins.\n *   key       {FITS}       deadline  {FITS}\n *             {FITS}\n * {FITS} */\n', name='x.h')
        self.passes('/* ' + '\n *   loop -> pool -> loop -> pool'.join([''] * 15) + ' */\n', name='x.h')

    def test_spelling(self):
        if shutil.which('codespell') is None:
            self.skipTest('no codespell here')
        wrong = 'rec' 'ieve'
        self.fails(f'# Text\n\nThey {wrong} a page.\n', f'x.md:3: misspelt: {wrong} ==> receive', spelling=True)
        self.fails(f'int a;\n/* To {wrong}. */\n', 'x.h:2: misspelt', name='x.h', spelling=True)
        self.passes(f'The option `{wrong}` exists.\n\n    {wrong}\n', spelling=True)
        self.passes(f'int {wrong};\n', name='x.h', spelling=True)
        code, output = run(words, {'src/base/a.c': f'/* {wrong} */\n'}, spelling=True)
        self.assertEqual(code, 1, output)
        self.assertIn('src/base/a.c:1: misspelt', output)

    def test_without_codespell_the_gate_says_that_it_did_not_look(self):
        with tempfile.TemporaryDirectory() as folder:
            (pathlib.Path(folder) / 'tools').mkdir()
            (pathlib.Path(folder) / 'tools/words_clean.txt').write_text('')
            done = subprocess.run([sys.executable, TOOLS / 'words.py', folder], capture_output=True, text=True, check=False,
                                  env={'PATH': folder})
        self.assertEqual(done.returncode, 77, done.stdout + done.stderr)

    def test_the_gate_holds_listed_files(self):
        code, output = run(words, {'docs/api.md': f'{LONG}.\n'})
        self.assertEqual(code, words.NOT_CHECKED, output)
        for name in ('README.md', 'docs/quick' 'start/wiki.md'):
            code, output = run(words, {name: f'{LONG}.\n'})
            self.assertEqual(code, 1, output)
            self.assertIn(f'{name}:1: 26 words', output)
        code, output = run(words, {'tools/words_clean.txt': 'docs/' 'gone.md\n'})
        self.assertEqual(code, 1, output)
        self.assertIn('lists docs/' 'gone.md', output)


    def test_the_list_grows(self):
        with tempfile.TemporaryDirectory() as folder:
            for name, text in {**CLEAN, 'docs/' 'long.md': f'{LONG}.\n', 'src/base/long.h': f'/* {LONG} */\n'}.items():
                path = pathlib.Path(folder) / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text)
            subprocess.run([sys.executable, TOOLS / 'words.py', '--grow', folder], stdout=subprocess.PIPE, check=True)
            listed = (pathlib.Path(folder) / 'tools/words_clean.txt').read_text()
        self.assertEqual(listed, CLEAN['tools/words_clean.txt'] + 'docs/adr/0001-why.md\ndocs/api.md\nsrc/base/str.h\n')


class Links(unittest.TestCase):
    def fails(self, changes, place):
        code, output = run(links, changes)
        self.assertEqual(code, 1, output)
        self.assertIn(place, output)

    def passes(self, changes):
        code, output = run(links, changes)
        self.assertEqual(code, 0, output)

    def test_a_clean_tree_passes(self):
        self.passes({})

    def test_links_to_files(self):
        self.passes({'docs/cql.md': '[a](api.md) [b](../README.md) [c](adr) [d](https://a.test/gone) ![e](<../src/base/str.h>)\n'})
        self.fails({'docs/cql.md': 'Text.\n\n[a](gone.md)\n'}, 'docs/cql.md:3: the link gone.md leads to no file')
        self.fails({'docs/cql.md': '- Item\n\n    [a `b` c\n    d](gone.md)\n'}, 'the link gone.md')
        self.fails({'docs/cql.md': '| a |\n| --- |\n| [a](docs/api.md) |\n'}, 'docs/cql.md:3: the link docs/api.md')
        self.fails({'docs/cql.md': '[a](../../other)\n'}, 'leaves the tree')
        self.fails({'docs/cql.md': '<img src="gone.svg" alt="A drawing">\n'}, 'gone.svg')

    def test_links_to_headings(self):
        self.passes({'docs/cql.md': '# One\n\n# One\n\n[a](#one) [b](#one-1) [c](api.md#keys-a--roles) <a id="two"></a> [d](#two)\n'})
        self.fails({'docs/cql.md': '# One\n\n[a](#one-1)\n'}, 'docs/cql.md:3: the link #one-1 leads to no heading of cql.md')
        self.fails({'docs/cql.md': '[a](api.md#pages)\n'}, 'leads to no heading of api.md')

    def test_links_by_name(self):
        self.passes({'docs/cql.md': '[a][b] and [c][B]\n\n[b]: api.md#2-pages\n'})
        self.fails({'docs/cql.md': '[a][b]\n'}, 'docs/cql.md:1: the link [b] is defined nowhere')
        self.fails({'docs/cql.md': '[a][b]\n\n[b]: gone.md\n'}, 'docs/cql.md:3: the link gone.md')

    def test_code_has_no_links(self):
        self.passes({'docs/cql.md': 'Text `[a](gone.md)`.\n\n    [a](gone.md)\n\n```\n[a](gone.md)\n```\n'})

    def test_paths_that_are_named(self):
        self.passes({'docs/cql.md': 'See src/base/str.h, src/base, docs/adr/0001, src/base/*.h, src/base/str and test/unit/NAME.\n'})
        self.passes({'docs/cql.md': 'The peer\'s src/gone.c, https://a.test/src/gone.c and x/src/gone.c are not ours.\n'})
        self.fails({'docs/cql.md': 'Text.\nSee `src/gone.h`.\n'}, 'docs/cql.md:2: names src/gone.h')
        self.fails({'docs/cql.md': 'See docs/adr/0002.\n'}, 'names docs/adr/0002')
        self.fails({'src/base/a.c': '/* See\n * src/gone.h. */\n'}, 'src/base/a.c:2: names src/gone.h')

    def test_sections_that_are_cited(self):
        self.passes({'src/base/a.c': '/* docs/api.md, "Pages" and "Keys a"; (docs/api.md, Old answers); docs/api.md,\n * "Old\n * answers". */\n'})
        self.fails({'src/base/a.c': '\n/* docs/api.md, "Pages" and "Tables". */\n'}, 'src/base/a.c:2: docs/api.md has no heading "Tables"')
        self.fails({'docs/cql.md': 'As api.md, "Tables", says.\n'}, 'docs/cql.md:1: api.md has no heading "Tables"')
        self.fails({'docs/cql.md': 'A page (docs/api.md, Tables).\n'}, 'has no heading "Tables"')
        self.fails({'test/scene/a.py': '\n\n"""Goal: what docs/api.md,\n"Tables", says."""\n'}, 'test/scene/a.py:3: docs/api.md has no')


if __name__ == '__main__':
    unittest.main()
