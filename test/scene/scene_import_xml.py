"""Goal: every revision of a MediaWiki export is stored under its own number and time, from whatever file it comes;
what was cut or interrupted goes on; what is malformed or a trap is refused with its line.
Method: exports made here with the schema's elements, compressed by Python's own modules and the zstd tool."""
import bz2
import gzip
import lzma
import os
import pathlib
import random
import re
import shutil
import signal
import stat
import subprocess
import time
import urllib.parse
from xml.sax.saxutils import escape, quoteattr

from cli import Client
from harness import Server, check, eq, main, scene, wait_until

HEAD = ('<mediawiki xmlns="http://www.mediawiki.org/xml/export-0.11/" '
        'xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance" version="0.11" xml:lang="en">\n'
        '  <siteinfo><sitename>T</sitename><dbname>t</dbname><case>first-letter</case>'
        '<namespaces><namespace key="0" case="first-letter" /></namespaces></siteinfo>\n')
START = 1577836800


def revision(number, text, extra=''):
    stamp = time.strftime('%Y-%m-%dT%H:%M:%SZ', time.gmtime(START + number))
    return (f'    <revision>\n      <id>{number}</id>\n      <parentid>{number - 1}</parentid>\n'
            f'      <timestamp>{stamp}</timestamp>\n      <contributor><username>U</username><id>3</id></contributor>\n'
            f'      <comment>c</comment>\n      <origin>{number}</origin>\n      <model>wikitext</model>\n'
            f'      <format>text/x-wiki</format>\n'
            f'      <text bytes="{len(text.encode())}" sha1="x" xml:space="preserve"{extra}>{escape(text)}</text>\n'
            f'      <sha1>x</sha1>\n    </revision>\n')


def page(title, revisions, ns=0):
    return (f'  <page>\n    <title>{escape(title)}</title>\n    <ns>{ns}</ns>\n    <id>1</id>\n'
            f'    <redirect title={quoteattr("X")} />\n{"".join(revisions)}  </page>\n')


def export(pages):
    return HEAD + ''.join(page(title, [revision(*r) for r in revisions]) for title, revisions in pages) + '</mediawiki>\n'


PAGES = [('Main Page', [(5, "'''a''' <b>&amp;</b>\n"), (7, 'zwei: ä €'), (9, '')]),
         ('Talk:Übung/1 & <2>', [(6, 'x' * 100000)]), ('A', [(8, 'text\n')])]
COUNT = sum(len(revisions) for _, revisions in PAGES)


def compressed(data):
    """name -> bytes of every kind of file that is taken."""
    half = len(data) // 2
    files = {'plain': data, 'bz2': bz2.compress(data), 'xz': lzma.compress(data), 'gz': gzip.compress(data),
             'multi.bz2': bz2.compress(data[:half]) + bz2.compress(data[half:]),
             'multi.xz': lzma.compress(data[:half]) + lzma.compress(data[half:]),
             'multi.gz': gzip.compress(data[:half]) + gzip.compress(data[half:])}
    if shutil.which('zstd'):
        files['zst'] = subprocess.run(['zstd', '-q', '-c'], input=data, stdout=subprocess.PIPE, check=True,
                                      timeout=60).stdout
    return files


def check_stored(server, pages):
    for title, revisions in pages:
        for number, text in revisions:
            path = f'/localhost/v1/page/source/{urllib.parse.quote(title, safe="")}/{number}'
            answer = server.request_again('GET', path)
            eq((answer.status, answer.body), (200, text.encode()), path)


@scene
def revisions_are_stored_under_their_numbers_and_times(binary):
    with Server(binary) as server:
        client = Client(binary, server)
        (client.folder / 'e.xml').write_text(export(PAGES))
        done, = client.json('import', 'mediawiki-xml', 'e.xml')
        eq((done['pages'], done['revisions'], done['stored'], done['no_text']), (3, COUNT, COUNT, 0))
        check_stored(server, PAGES)
        items = client.json('history', 'Main Page')
        eq([(item['rev'], item['rendered_at']) for item in items],
           [(9, '2020-01-01T00:00:09.000Z'), (7, '2020-01-01T00:00:07.000Z'), (5, '2020-01-01T00:00:05.000Z')])
        answer = server.request('GET', '/localhost/v1/page/source/Main%20Page/5')
        eq(answer.headers['content-type'], 'text/x-wiki; charset=utf-8')
        html = server.request('GET', '/localhost/v1/page/html/Main%20Page/5').body
        check(b"<pre>'''a''' &lt;b&gt;&amp;amp;&lt;/b&gt;" in html, html)


@scene
def files_are_known_by_their_bytes(binary):
    data = export(PAGES).encode()
    with Server(binary) as server:
        client = Client(binary, server)
        for n, (name, packed) in enumerate(compressed(data).items()):
            (client.folder / f'file{n}').write_bytes(packed)
            done, = client.json('import', 'mediawiki-xml', f'file{n}')
            eq((done['stored'], done['already']), (COUNT, 0) if n == 0 else (0, COUNT), name)
            piped, = client.json('import', 'mediawiki-xml', '-', stdin=packed)
            eq(piped['already'], COUNT, name)
        check_stored(server, PAGES)


@scene
def another_file_of_the_same_name_is_refused(binary):
    pages = [(f'P{n}', [(n * 10 + k + 1, f'{n}.{k}') for k in range(5)]) for n in range(20)]
    others = [(f'O{n}', [(1000 + n * 10 + k, f'{n}.{k}') for k in range(5)]) for n in range(40)]
    with Server(binary) as server:
        client = Client(binary, server)
        (client.folder / 'e.xml').write_text(export(pages))
        client.json('import', 'mediawiki-xml', 'e.xml')
        for count in (40, 10, 0):                          # longer, shorter, empty
            (client.folder / 'e.xml').write_text(export(others[:count]))
            refused = client('import', 'mediawiki-xml', 'e.xml')
            eq(refused.returncode, 1, f'{count} pages: {refused.stdout}')
            check(b'not the file of the last import any more; start over with --restart' in refused.stderr, refused.stderr)
        (client.folder / 'e.xml').write_text(export(others[:10]))
        client.json('import', 'mediawiki-xml', 'e.xml', '--restart')
        check_stored(server, pages + others[:10])


@scene
def a_cut_file_keeps_what_it_had_and_the_whole_one_goes_on(binary):
    pages = [(f'P{n}', [(n * 10 + k + 1, f'{n}.{k} ' + 'ä' * 3000) for k in range(5)]) for n in range(40)]
    data = export(pages).encode()
    for name, packed in compressed(data).items():
        with Server(binary) as server:
            client = Client(binary, server)
            file = client.folder / 'e'
            file.write_bytes(packed[:len(packed) * 2 // 3])
            cut = client('import', 'mediawiki-xml', 'e')
            eq(cut.returncode, 1, name)
            check((b'e: line ' if name == 'plain' else b'cut off') in cut.stderr, f'{name} {cut.stderr}')
            file.write_bytes(packed)
            done, = client.json('import', 'mediawiki-xml', 'e')
            eq(done['stored'] + done['imported_before'], 200, name)
            check(name != 'plain' or 100 < done['imported_before'] < 150, f'{name}: {done}')
            check_stored(server, pages)


@scene
def a_damaged_file_stores_nothing_wrong_and_the_good_one_says_what_differs(binary):
    pages = [(f'P{n}', [(n + 1, f'{n} ' + random.Random(n).randbytes(2000).hex())]) for n in range(60)]
    data = export(pages).encode()
    for name, packed in compressed(data).items():
        if name not in ('gz', 'zst', 'xz', 'bz2'):
            continue
        with Server(binary) as server:
            client = Client(binary, server)
            file = client.folder / 'e'
            bad = bytearray(packed)
            bad[len(bad) // 2] ^= 0x10
            file.write_bytes(bad)
            done = client('import', 'mediawiki-xml', 'e')
            eq((done.returncode, b'damaged' in done.stderr), (1, True), f'{name} {done.stderr}')
            eq(client('ls').stdout, b'', name)
            file.write_bytes(packed)
            done, = client.json('import', 'mediawiki-xml', 'e')
            eq((done['stored'], done['imported_before']), (60, 0), name)
            check_stored(server, pages)
    with Server(binary) as server:
        client = Client(binary, server)
        (client.folder / 'e').write_text(export([('P', [(1, 'wrong')])]))
        client.ok('import', 'mediawiki-xml', 'e')
        (client.folder / 'e').write_text(export([('P', [(1, 'right')])]))
        done = client('import', 'mediawiki-xml', 'e', '--restart', '--quiet')
        check(b'stored with other bytes than these' in done.stderr, done.stderr)
        client.ok('rm', 'P', '1')
        (client.folder / 'right').write_text('right')
        client.ok('put', 'P', '1', 'right')
        eq(client.ok('get', 'P', '1'), 'right')


@scene
def a_wrong_field_leaves_out_its_revision_alone(binary):
    """Each is named, nothing behind it is lost, and the next run goes on behind all of them."""
    good = '<revision><id>{}</id><timestamp>2020-01-01T00:00:00Z</timestamp><text>t{}</text></revision>'
    wrong = ('<revision><id>12</id><timestamp>junk</timestamp><text>x</text></revision>'
             '<revision><id>13</id><text>x</text></revision>'
             '<revision><id>many</id><timestamp>2020-01-01T00:00:00Z</timestamp><text>x</text></revision>'
             f'<revision><id>14</id><timestamp>{"2" * 300}</timestamp><text>x</text></revision>')
    body = ('<mediawiki><page><title>T</title><ns>none</ns>' + good.format(11, 11) + wrong + good.format(15, 15) +
            '</page><page>' + good.format(16, 16) + f'</page><page><title>{"L" * 2000}</title>' + good.format(17, 17) +
            '</page><page><title>U</title>' + good.format(18, 18) + '</page></mediawiki>')
    with Server(binary) as server:
        client = Client(binary, server)
        (client.folder / 'e.xml').write_text(body)
        done = client('import', 'mediawiki-xml', 'e.xml')
        eq(done.returncode, 0, done.stderr)
        check(b'3 revisions stored' in done.stdout and b'6 with wrong fields left out' in done.stdout, done.stdout)
        said = done.stderr.decode()
        for words in ('T revision 12: it has no proper timestamp', 'T revision 13: it has no proper timestamp',
                      'T: it has no proper id', 'T revision 14: it has no proper timestamp',
                      'a page without a title revision 16', 'revision 17: the title of its page is too long'):
            check(f'left out: {words}' in said or words in said, f'{words}: {said}')
        eq(said.count('left out: '), 6)
        eq([item['rev'] for item in client.json('history', 'T')], [15, 11])
        eq(client.ok('get', 'U', '-c', 'source'), 't18')
        (client.folder / 'e.xml').write_text(body.replace('</mediawiki>', '<page><title>V</title>' + good.format(19, 19) +
                                                          '</page></mediawiki>'))
        again, = client.json('import', 'mediawiki-xml', 'e.xml')
        eq((again['stored'], again['already'], again['imported_before'], again['unfit']), (1, 0, 9, 0))


@scene
def an_interrupted_import_counts_and_says_how_to_go_on(binary):
    body = export([(f'P{n}', [(n + 1, f'{n} ' * 4000)]) for n in range(4000)])
    with Server(binary) as server:
        client = Client(binary, server)
        (client.folder / 'e.xml').write_text(body)
        for number, more, says in ((signal.SIGINT, (), 'the same command goes on from there'),
                                   (signal.SIGTERM, ('--json',), 'the same command goes on from there')):
            had = len(client.ok('ls').splitlines())
            with subprocess.Popen([client.binary, 'import', 'mediawiki-xml', 'e.xml', '--parallel', '1', *more], env=client.env,
                                  cwd=client.folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
                wait_until(lambda had=had: len(client.ok('ls').splitlines()) > had + 20, 'some of its pages')
                process.send_signal(number)
                out, said = process.communicate(timeout=60)
            eq((process.returncode, out), (-number, ''), said)
            counted = re.search(r'import mediawiki-xml: interrupted: (\d+) stored, \d+ already there; ' + says, said)
            check(counted and int(counted.group(1)) > 0, said)
            eq(said.count('\n'), 1, said)
        done, = client.json('import', 'mediawiki-xml', 'e.xml')
        check(done['imported_before'] > 40, done)
        eq(done['stored'] + done['already'] + done['imported_before'], 4000)
        with subprocess.Popen([client.binary, 'import', 'mediawiki-xml', '-'], env=client.env, cwd=client.folder,
                              stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
            process.stdin.write(body[:100000])
            process.stdin.flush()
            status = pathlib.Path(f'/proc/{process.pid}/status')
            wait_until(lambda: int(re.search(r'SigCgt:\s*(\w+)', status.read_text()).group(1), 16) >> (signal.SIGINT - 1) & 1,
                       'it takes signals')
            process.send_signal(signal.SIGINT)
            process.wait(60)
            check('passes over what is there already' in process.stderr.read(), 'an import of standard input waits for nothing')


@scene
def an_import_under_nohup_outlives_its_terminal(binary):
    body = export([('A', [(1, 'one')])])
    with Server(binary) as server:
        client = Client(binary, server)
        with subprocess.Popen([client.binary, 'import', 'mediawiki-xml', '-'], env=client.env, cwd=client.folder,
                              stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                              preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN)) as process:
            status = pathlib.Path(f'/proc/{process.pid}/status')
            wait_until(lambda: int(re.search(r'SigCgt:\s*(\w+)', status.read_text()).group(1), 16) >> (signal.SIGTERM - 1) & 1,
                       'it takes signals')
            process.send_signal(signal.SIGHUP)
            process.communicate(body, timeout=60)
        eq(process.returncode, 0)
        eq(client.ok('ls').split()[0], 'A')


@scene
def a_killed_import_goes_on_where_it_was(binary):
    pages = [(f'P{n % 50} {n // 500}', [(n + 1, f'{n} ' * 1500)]) for n in range(5000)]
    merged = {}
    for title, revisions in pages:
        merged.setdefault(title, []).extend(revisions)
    pages = list(merged.items())
    with Server(binary) as server:
        client = Client(binary, server)
        (client.folder / 'e.xml').write_text(export(pages))
        with subprocess.Popen([client.binary, 'import', 'mediawiki-xml', 'e.xml', '--parallel', '1'], env=client.env,
                              cwd=client.folder, stdout=subprocess.DEVNULL) as process:
            wait_until(lambda: client('history', pages[20][0], '--json').stdout.count(b'\n') >= 1, 'the 21st page')
            process.send_signal(signal.SIGKILL)
        check(client('history', pages[-1][0]).returncode == 5, 'the import was over already')
        done, = client.json('import', 'mediawiki-xml', 'e.xml')
        eq(done['stored'] + done['already'] + done['imported_before'], 5000)
        eq([len(client.json('history', title)) for title, _ in pages[:30]], [10] * 30)
        check_stored(server, random.Random(1).sample(pages, 40))


@scene
def another_file_in_the_same_place_is_not_gone_on_with(binary):
    with Server(binary) as server:
        client = Client(binary, server)
        (client.folder / 'e.xml').write_text(export(PAGES))
        client.ok('import', 'mediawiki-xml', 'e.xml')
        other = [('Other', [(n, 'o') for n in range(1, 10)])]
        (client.folder / 'e.xml').write_text(export(other))
        done = client('import', 'mediawiki-xml', 'e.xml')
        eq(done.returncode, 1)
        check(b'--restart' in done.stderr, done.stderr)
        client.ok('import', 'mediawiki-xml', 'e.xml', '--restart')
        check_stored(server, other)



@scene
def a_state_file_of_something_else_or_a_damaged_one_is_refused_and_left(binary):
    with Server(binary, '--domain', 'localhost', '--domain', 'other') as server:
        client = Client(binary, server)
        (client.folder / 'e.xml').write_text(export(PAGES))
        state = client.folder / 's'
        state.touch()
        args = ('import', 'mediawiki-xml', 'e.xml', '--state', 's')
        eq(client.json(*args)[0]['imported_before'], 0, 'an empty file, as of mktemp, is none yet')
        eq(stat.S_IMODE(state.stat().st_mode), 0o644)
        first = client.json(*args)[0]
        check(first['stored'] + first['already'] == 0 < first['imported_before'], first)
        good = state.read_bytes()

        def refused(held, says, *more, mended_by_restart=False):
            state.write_bytes(held)
            done = client(*args, *more)
            eq((done.returncode, done.stdout), (6, b''), done.stderr)
            check(says in done.stderr, done.stderr)
            eq(state.read_bytes(), held, 'it is as it was')
            eq(client(*args, *more, '--restart').returncode, 0 if mended_by_restart else 6)
            check(mended_by_restart or state.read_bytes() == held, 'it is as it was')
        refused(b'my only copy of a poem\n', b'no state file of an import')
        refused(b'{"poem": 1}', b'no state file of an import')
        refused(good[:len(good) // 2], b'is damaged: --restart', mended_by_restart=True)
        refused(good.replace(b'"rev"', b'"rew"'), b'is damaged: --restart', mended_by_restart=True)
        refused(b'{"of":"poem"}', b'no state file of an import: name another')
        refused(good.replace(b'"done":', b'"done":1'), b'is damaged: --restart', mended_by_restart=True)
        refused(good, b'is of another import, "import mediawiki-xml --domain localhost', '--domain', 'other', mended_by_restart=True)
        state.write_bytes(good)
        (client.folder / 'titles').write_text('A\n')
        done = client('prewarm', 'titles', '--state', 's')
        eq((done.returncode, state.read_bytes()), (6, good), done.stderr)
        for name in ('/dev/zero', '.', './' + 'x' * 5000):
            done = client(*args[:-1], name)
            said = (1, b'of --state is too long') if len(name) > 5000 else (6, b'no state file')
            check(done.returncode == said[0] and said[1] in done.stderr, done)
        for _ in range(2):
            eq(client.json(*args[:-1], '/dev/null')[0]['imported_before'], 0, 'nothing is kept')
        check(stat.S_ISCHR(os.stat('/dev/null').st_mode), 'it is what it was')
        state.write_bytes(re.sub(rb'"of":"[^"]*",', b'', re.sub(rb',"sum":"[^"]*"', b'', good)))
        eq(client.json(*args)[0]['imported_before'], first['imported_before'], 'one of a version before is taken')
        client.ok(*args[:-2])
        [kept] = (client.folder / 'state' / 'palimpsest').iterdir()
        kept.write_bytes(b'\0' * 100)
        done = client(*args[:-2])
        check(done.returncode == 6 and b'is damaged: --restart' in done.stderr, 'its name is our own')
        client.ok(*args[:-2], '--restart')
        eq(client.json(*args[:-2])[0]['imported_before'], first['imported_before'])


@scene
def hidden_missing_and_huge_texts_are_left_out_and_counted(binary):
    body = (HEAD + page('T', [revision(1, 'one'),
                              '<revision><id>2</id><timestamp>2020-01-01T00:00:00Z</timestamp><text deleted="deleted" />'
                              '</revision>',
                              '<revision><id>3</id><timestamp>2020-01-01T00:00:00Z</timestamp>'
                              '<text bytes="9" id="4" /></revision>',
                              revision(4, 'x' * (9 << 20)), revision(5, 'five')]) + '</mediawiki>')
    with Server(binary) as server:
        client = Client(binary, server)
        done = client('import', 'mediawiki-xml', '-', '--json', stdin=body.encode())
        eq(done.returncode, 0, repr(done.stderr))
        check(b'"stored":2' in done.stdout and b'"no_text":2' in done.stdout and b'"too_large":1' in done.stdout, done)
        check(b'left out: T revision 4' in done.stderr, done.stderr)
        eq([item['rev'] for item in client.json('history', 'T')], [5, 1])


@scene
def traps_and_nonsense_are_refused_with_their_line(binary):
    bomb = ('<?xml version="1.0"?>\n<!DOCTYPE lolz [<!ENTITY a "' + 'a' * 1000 + '">' +
            ''.join(f'<!ENTITY b{n} "{"&" + (f"b{n - 1}" if n else "a") + ";"}{"&" + (f"b{n - 1}" if n else "a") + ";"}">'
                    for n in range(40)) + ']>\n' + HEAD + page('T', [revision(1, 'X').replace('X', '&b39;')]) +
            '</mediawiki>')
    external = f'<!DOCTYPE x [<!ENTITY e SYSTEM "file:///etc/passwd">]>\n{HEAD}</mediawiki>'
    deep = HEAD + '<page>' + '<x>' * 100000
    with Server(binary) as server:
        client = Client(binary, server)
        for body, says in ((bomb, 'line 2: a document type'), (external, 'line 1: a document type'),
                           (deep, 'nested too deep'), ('<html/>', 'no MediaWiki export'), ('', 'no element found'),
                           ('PK\x03\x04 zip', 'line 1'), (HEAD + '\n<page><title>x</page>', 'line 4: mismatched tag'),
                           (HEAD + '<page></page></mediawiki', 'unclosed token')):
            done = client('import', 'mediawiki-xml', '-', stdin=body.encode())
            eq(done.returncode, 1, body[:80])
            check(says.encode() in done.stderr, f'{body[:80]}: {done.stderr}')
            check(b'root:' not in done.stderr + done.stdout, 'a file of the machine was read')


@scene
def memory_stays_small_however_long_the_file(binary):
    with Server(binary) as server:
        client = Client(binary, server)
        total = 512 << 20
        with subprocess.Popen([client.binary, 'import', 'mediawiki-xml', '-', '--json'], env=client.env, cwd=client.folder,
                              stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
            process.stdin.write(HEAD.encode())
            filler = b'<logitem>' + b'<id>1</id>' * 100000 + b'</logitem>\n'
            for _ in range(total // len(filler)):
                process.stdin.write(filler)
            process.stdin.flush()
            with open(f'/proc/{process.pid}/status', encoding='ascii') as status:
                peak_kb = next(int(line.split()[1]) for line in status if line.startswith('VmHWM'))
            process.stdin.write(page('T', [revision(1, 'one')]).encode() + b'</mediawiki>')
            process.stdin.close()
            eq(process.wait(120), 0)
        eq(server.request('GET', '/localhost/v1/page/source/T').body, b'one')
        check(peak_kb < 256 << 10, f'{peak_kb} kB at its peak')


main()
