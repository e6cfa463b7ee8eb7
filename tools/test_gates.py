#!/usr/bin/env python3
"""Goal: the gates see what they are for. Method: plant one offence at a time in a small tree that is clean."""
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

import c_tables

TOOLS = pathlib.Path(__file__).resolve().parent
CLEAN = {
    '.clang-format': (TOOLS.parent / '.clang-format').read_text(),
    'tools/layers.txt': '# words\nbase: | *\nhttp: base | http.h negotiate.h\napp: base http\n',
    'src/base/str.h': '#ifndef BASE_STR_H\n#define BASE_STR_H\nint f(int a);\n#endif\n',
    'src/base/str.c': '#include "base/str.h"\n/* strcpy( is only named here */\nint f(int a)\n{\n    return a;\n}\n',
    'src/http/http.h': '#ifndef HTTP_HTTP_H\n#define HTTP_HTTP_H\n#endif\n',
    'src/http/head.h': '#ifndef HTTP_HEAD_H\n#define HTTP_HEAD_H\n#endif\n',
    'src/http/head.c': '#include "http/head.h"\n\n#include "base/str.h"\n',
    'src/app/app.c': '#include "http/http.h"\n\n#include <stdio.h>\n',
}


def run(tool, changes, *words, opened=True):
    """(exit code, output) of the tool on the clean tree with changes {path: text}, and these arguments behind the tree. opened: tidy.py
    sees sources that open with a comment, on their first line."""
    with tempfile.TemporaryDirectory() as folder:
        for name, text in {**CLEAN, **changes}.items():
            path = pathlib.Path(folder) / name
            path.parent.mkdir(parents=True, exist_ok=True)
            opens = tool == 'tidy.py' and opened and name.startswith('src/') and name.endswith('.c')
            path.write_text(f'/* {path.name} - a part. */{text}' if opens else text)
        done = subprocess.run([sys.executable, TOOLS / tool, folder, *words], capture_output=True, text=True, check=False)
        return done.returncode, done.stdout + done.stderr


class Gates(unittest.TestCase):
    def fails(self, tool, changes, place):
        code, output = run(tool, changes)
        self.assertEqual(code, 1, output)
        self.assertIn(place, output)

    def test_a_clean_tree_passes(self):
        for tool in ('layers.py', 'tidy.py'):
            code, output = run(tool, {})
            self.assertEqual(code, 0, output)

    def test_layers_see_an_include_upwards(self):
        self.fails('layers.py', {'src/base/up.c': '\n#include "http/http.h"\n'}, 'src/base/up.c:2')

    def test_tidy_without_ctags_says_that_it_did_not_look(self):
        with tempfile.TemporaryDirectory() as folder:
            done = subprocess.run([sys.executable, TOOLS / 'tidy.py', folder], capture_output=True, text=True, check=False,
                                  env={'PATH': folder})
        self.assertEqual(done.returncode, 77, done.stdout + done.stderr)

    def test_layers_see_a_private_header(self):
        self.fails('layers.py', {'src/app/app.c': '#include "http/head.h"\n'}, 'private to http')

    def test_layers_see_folders_without_a_line_and_odd_paths(self):
        self.fails('layers.py', {'src/new/new.c': ''}, 'src/new/new.c:1')
        self.fails('layers.py', {'src/app/app.c': '#include "new/new.h"\n'}, 'src/app/app.c:1')
        self.fails('layers.py', {'src/app/app.c': '#include "../http/http.h"\n'}, 'src/app/app.c:1')
        self.fails('layers.py', {'src/app/app.c': '#include "app.h"\n'}, 'src/app/app.c:1')

    def test_layers_see_a_circle(self):
        self.fails('layers.py', {'tools/layers.txt': 'base: http\nhttp: base\napp:\n'}, 'each other')

    def test_layers_see_a_sealed_header_through_others(self):
        sealed = CLEAN['tools/layers.txt'] + 'sealed base/str.h str_view: base http/head.c\n'
        tree = {'tools/layers.txt': sealed, 'src/http/http.h': CLEAN['src/http/http.h']}
        self.assertEqual(run('layers.py', tree)[0], 0)
        tree['src/http/http.h'] = '#include "base/str.h"\n'
        self.fails('layers.py', tree, 'src/http/http.h:1: sees base/str.h')
        self.fails('layers.py', tree, 'src/app/app.c:1: sees base/str.h, through http/http.h')
        tree['src/http/http.h'] = '#ifndef A\nstruct str_view;\n#endif\n'
        self.fails('layers.py', tree, 'src/http/http.h:2: str_view is sealed')
        tree['src/http/head.c'] = 'struct str_view;\n'
        tree['src/http/http.h'] = CLEAN['src/http/http.h']
        self.assertEqual(run('layers.py', tree)[0], 0)

    def test_tidy_sees_a_second_one_of_what_there_is_one_of(self):
        letters = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789'
        for line in (f'static const char a[] = "{letters}+/";', f'static const char a[] = "{letters}-_";',
                     'buf_put(b, STR("u00"));', 'memcpy(out, "\\\\u00", 4);', "char a[] = { 'u', '0', '0' };",
                     'buf_printf(b, "\\\\u%04x", c);', 'strchr("!#$%&\'*+-.^_`|~", c);', "x[256] = { ['!'] = 1 };",
                     'str_starts(word, STR("wait="));', 'str_eq(name, STR("wait"));', '#include <curl/curl.h>',
                     'json_t *doc = json_loadb(p, n, 0, NULL);', 'strchr("bfnrtu", c);', 'sigaction(SIGHUP, &a, NULL);',
                     '(void)signal(SIGPIPE, SIG_IGN);', 'pthread_sigmask(SIG_BLOCK, &set, NULL);'):
            self.fails('tidy.py', {'src/app/app.c': f'\n{line}\n'}, 'src/app/app.c:2')
        code, output = run('tidy.py', {'src/codec/base64.c': f'\nstatic const char a[] = "{letters}+/";\n'})
        self.assertEqual(code, 0, output)
        code, output = run('tidy.py', {'src/engine/map_guard.c': 'int f(void) { return sigaction(1, 0, 0); }\n'})
        self.assertEqual(code, 0, output)

    def test_format_sees_what_is_written_in_another_way(self):
        code, output = run('format.py', {})
        if code == 77:
            self.skipTest(output)
        self.assertEqual(code, 0, output)
        bent = {'src/base/str.c': 'int f( int a )\n{\nreturn a;\n}\n'}
        self.fails('format.py', bent, 'src/base/str.c:1')
        self.assertEqual(run('format.py', bent, 'src/app/app.c')[0], 0)
        self.assertEqual(run('format.py', bent, 'src/app/app.c', 'src/base/str.c')[0], 1)

    def test_tidy_sees_sizes(self):
        if shutil.which('ctags') is None:
            self.skipTest('no universal-ctags here')
        body = 'int g(void)\n{\n' + '    f(1);\n' * 68 + '}\n'
        self.fails('tidy.py', {'src/base/long.c': body}, 'src/base/long.c:1: g has 71 lines')
        self.assertEqual(run('tidy.py', {'src/base/long.c': body.replace('    f(1);\n', '', 1)})[0], 0)
        self.fails('tidy.py', {'src/base/long.c': '\n' * 602}, '601 lines')
        self.assertEqual(run('tidy.py', {'test/long.c': '\n' * 601})[0], 0)
        self.fails('tidy.py', {'test/long.c': '\n' * 801}, '801 lines')
        self.fails('tidy.py', {'src/base/wide.c': '\n/*' + 'x' * 97 + '*/\n'}, '101 columns')
        guard = '#ifndef BASE_LONG_H\n#define BASE_LONG_H\n%s#endif\n'
        self.fails('tidy.py', {'src/base/long.h': guard % ('\n' * 248)}, '251 lines')

        comment = '/*\n' + ' * why\n' * 148 + ' */\n'
        self.assertEqual(run('tidy.py', {'src/base/long.c': '\n' + comment + 'int a;\n' * 600})[0], 0)
        self.fails('tidy.py', {'src/base/long.c': '\n' + comment + 'int a;\n' * 650}, '801 lines')

    def test_tidy_sees_a_source_that_does_not_say_what_it_is(self):
        for text in ('int a;\n', '/* static */\nint a;\n', '\n/* own.c - a part. */\n'):
            code, output = run('tidy.py', {'src/base/own.c': text}, opened=False)
            self.assertEqual(code, 1, output)
            self.assertIn('src/base/own.c:1: opens with no comment', output)

    def test_tidy_sees_parameters(self):
        if shutil.which('ctags') is None:
            self.skipTest('no universal-ctags here')
        many = 'int g(int a, int b, int c, int d, int e, void (*f)(int, int)%s)\n{\n    return a;\n}\n'
        self.assertEqual(run('tidy.py', {'src/base/many.c': many % ''})[0], 0)
        self.fails('tidy.py', {'src/base/many.c': many % ', int h'}, 'src/base/many.c:1: g has 7 parameters')

    def test_tidy_sees_banned_calls(self):
        for call in ('strcpy(a, b)', 'sprintf (a, b)', 'atoi(a)', 'strtoul(a, b, 10)', 'rand()', 'time(NULL)'):
            self.fails('tidy.py', {'src/base/bad.c': f'\nint x = {call};\n'}, 'src/base/bad.c:2')
        self.assertEqual(run('tidy.py', {'src/loop/clock.c': 'int x = time(NULL);\n'})[0], 0)
        self.assertEqual(run('tidy.py', {'src/base/ok.c': 'int x = c->time(1) + store_time(2);\n'})[0], 0)

    def test_tidy_sees_citations_of_what_is_not_here(self):
        cited = ('DES' 'IGN 7', 'CON' 'TRACT section 2', 'notes ' 'flights' '.md 2.6', 'notes ' 'of the peer', 'notes ' '1.8',
                 'docs/' 'gone.md', 'docs/adr/' '0099', 'peer' '.md 1.2')
        wrong = {}
        for number, what in enumerate(cited):
            wrong |= {f'src/base/c{number}.c': f'\n/* As {what} says. */\n', f'test/scene/s{number}.py': f'\n"""{what}."""\n',
                      'docs/' f'd{number}.md': f'\n{what}\n'}
        code, output = run('tidy.py', wrong)
        self.assertEqual(code, 1, output)
        for path in wrong:
            self.assertIn(f'{path}:2: cites', output)
        documents = {'docs/api.md': '# API\n\n## 2. Pages\n', 'docs/adr/0001-why.md': '# 1\n'}
        told = '/* docs/api.md, 2; docs/api.md 2, docs/adr/0001 */\nconst char *name = "notes ' 'of the peer";\n'
        code, output = run('tidy.py', {**documents, 'src/base/cites.c': told})
        self.assertEqual(code, 0, output)
        self.fails('tidy.py', {**documents, 'src/base/cites.c': '/* docs/api.md, 3 */\n'}, 'section 3')

    def test_tidy_sees_todos_guards_and_space(self):
        self.fails('tidy.py', {'src/base/bad.c': '/* TODO later */\n'}, 'TODO')
        self.assertEqual(run('tidy.py', {'src/base/ok.c': '/* TODO #12: later */\n'})[0], 0)
        self.fails('tidy.py', {'src/base/bad.h': '#ifndef BAD_H\n#define BAD_H\n#endif\n'}, 'BASE_BAD_H')
        self.fails('tidy.py', {'src/base/bad.c': 'int x; \n'}, 'space')
        self.fails('tidy.py', {'src/base/bad.c': '\tint x;\n'}, 'tab')

    def test_drawings_see_what_does_not_go_with_its_source(self):
        drawn = {path.name: path.read_text() for path in sorted((TOOLS.parent / 'docs/drawings').glob('item.*'))}
        tree = {f'docs/drawings/{name}': text for name, text in drawn.items()}
        tree['docs/concepts.md'] = '![How an item lives](drawings/item.svg)\n'
        self.assertEqual(run('drawings.py', tree), (0, ''))
        dot, svg = 'docs/drawings/item.dot', 'docs/drawings/item.svg'
        for path, text, place in (
                (dot, tree[dot].replace('leased', 'lent'), 'item.svg:1: item.dot was changed since'),
                (svg, tree[svg].replace('leased', 'lent'), 'item.svg:1: was changed by hand'),
                (svg, tree[svg].split('\n', 1)[1], 'item.svg:1: its first line'),
                (dot, tree[dot].replace('// title:', '//'), 'item.dot:1: has no line "// title'),
                ('docs/drawings/lost.svg', tree[svg], 'lost.svg:1: has no source'),
                ('docs/drawings/new.dot', tree[dot], 'new.svg:1: is missing'),
                ('docs/concepts.md', '![](drawings/item.svg)\n', 'concepts.md:1: shows drawings/item.svg without'),
                ('docs/concepts.md', 'no drawing\n', 'item.svg:1: no document shows it')):
            self.fails('drawings.py', {**tree, path: text}, place)

    def test_reference_sees_a_file_that_is_not_what_the_tables_say(self):
        with tempfile.TemporaryDirectory() as folder:
            tree = pathlib.Path(folder)
            (tree / 'src').symlink_to(TOOLS.parent / 'src')
            shutil.copytree(TOOLS.parent / 'docs/reference', tree / 'docs/reference')
            for name in ('options.md', 'limits.md'):
                file = tree / 'docs/reference' / name
                file.write_text(file.read_text().replace('`16k`', '`17k`'))
            (tree / 'docs/reference/verbs.md').unlink()
            found = subprocess.run([sys.executable, TOOLS / 'reference.py', folder], capture_output=True, text=True, check=False)
            self.assertEqual(found.returncode, 1, found.stderr)
            self.assertEqual([pathlib.Path(line.split(':')[0]).name for line in found.stdout.splitlines()],
                             ['options.md', 'verbs.md', 'limits.md'])
            self.assertIn('17k', found.stdout)
            written = subprocess.run([sys.executable, TOOLS / 'reference.py', folder, '--write'], check=False)
            self.assertEqual(written.returncode, 0)
            again = subprocess.run([sys.executable, TOOLS / 'reference.py', folder], capture_output=True, text=True, check=False)
            self.assertEqual((again.returncode, again.stdout), (0, ''))

    def test_c_tables_read_what_tables_are_made_of(self):
        with tempfile.TemporaryDirectory() as folder:
            source = pathlib.Path(folder) / 'src/app/t.c'
            source.parent.mkdir(parents=True)
            source.write_text('#define KI ((uint64_t)1 << 10)\n#define PATH "/{a}"\nenum { FIRST, SECOND, OWNS = 4 * KI, AFTER };\n'
                              '#define ROW(name, ...) { "n." name, PATH "/x", __VA_ARGS__ }\n#define CALLS(X) X(one) X(two)\n'
                              'static const struct t rows[] = {\n    { "a", "b" /* } */ "c", .max = AFTER - 1 },\n'
                              '    ROW("d", 3, .in = &(const struct u){ .p = "q" }),\n#undef ROW\n#define ROW(x) { x }\n    ROW("e"),\n};\n'
                              '#define GLUED(n) { name_##n },\nconst char *const glued[] = { CALLS(GLUED) };\n')
            tree = c_tables.Tree(folder)
            unit = tree.unit('src/app/t.c')
            rows = unit.rows('rows', ('name', 'path', 'max'))
            self.assertEqual(rows[0], {'name': 'a', 'path': 'bc', 'max': 4096})
            self.assertEqual((rows[1]['name'], rows[1]['path'], rows[1]['max']), ('n.d', '/{a}/x', 3))
            self.assertIn('"q"', rows[1]['in'])
            self.assertEqual(rows[2], {'name': 'e'})
            self.assertEqual(unit.rows('glued', ('name',)), [{'name': 'name_one'}, {'name': 'name_two'}])
            self.assertEqual((tree.named('OWNS'), unit.value('SECOND')), (4096, 1))


if __name__ == '__main__':
    unittest.main()
