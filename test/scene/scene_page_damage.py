"""Goal: a damaged row is named and gone past by listings, told by reads of it, and a file cut off under a running server
ends it with a sentence or costs what was cut off, never silently.
Method: a stopped server's index gets one byte of a row changed, or a running one's file is truncated."""
import http.client
import os

from cli import Client
from harness import check, eq, main, scene, wait_until
from page_help import explain, get, history, page_server, path, problem, put, tid

RENDER = b'\x02'    # the space of renders (engine.h), first byte of their keys in the index


def figure(server, name):
    for line in server.request('GET', '/metrics').body.decode().splitlines():
        if line.startswith(name + ' '):
            return int(float(line.split()[1]))
    raise AssertionError(f'no figure {name}')


def damage(server, title, rev):
    """Changes a byte of the row's value in every copy the index file holds."""
    file = server.data / 'index' / 'data.mdb'
    image = bytearray(file.read_bytes())
    key = title.encode() + b'\0' + (rev ^ (2**64 - 1)).to_bytes(8, 'big')
    at, hits = image.find(key), 0
    while at >= 0:
        if image[at - 7:at - 6] == RENDER:
            image[at + len(key) + 16 + 20] ^= 0x10    # behind the tid and the row's sum
            hits += 1
        at = image.find(key, at + 1)
    check(hits > 0, f'no row of {title} {rev} in the index')
    file.write_bytes(image)


def with_damage(binary, titles, damaged):
    """A server whose titles have three revisions each, of which some rows are damaged."""
    server = page_server(binary)
    for title in titles:
        for rev in (1, 2, 3):
            put(server, title, rev, f'{title} {rev}'.encode(), tid(rev))
    eq(server.sigterm(), 0, 'exit code')
    for title, rev in damaged:
        damage(server, title, rev)
    return server.start()


@scene
def a_history_names_what_it_goes_past(binary):
    with with_damage(binary, ['Alpha'], [('Alpha', 2)]) as server:
        got = history(server, 'Alpha')
        eq([i['rev'] for i in got['items']], [3, 1])
        lost = [{'title': 'Alpha', 'rev': 2, 'tid': tid(2)}]
        eq(got['damaged'], lost)
        eq(figure(server, 'palimpsest_pages_damaged_total'), 1)
        check('page.damaged' in server.stderr(), 'the log says nothing')
        first = history(server, 'Alpha', '?limit=1')
        eq(([i['rev'] for i in first['items']], 'damaged' in first), ([3], False), 'the page before it')
        second = history(server, 'Alpha', f'?limit=1&page={first["next"]}')
        eq(([i['rev'] for i in second['items']], second['damaged']), ([1], lost), 'the page it is on')
        for of in (2, tid(2)), (2, None):
            problem(server.request('GET', path('html', 'Alpha', *of)), 500, 'corrupt')
        eq(get(server, 'Alpha').body, b'Alpha 3')
        eq(get(server, 'Alpha', 1, tid(1)).body, b'Alpha 1')
        problem(server.request('GET', path('explain', 'Alpha', 2, tid(2))), 500, 'corrupt')
        check('damaged' not in explain(server, 'Alpha', 3, tid(3)), 'another render is whole')
        told = Client(binary, server)('history', 'Alpha')
        eq((told.returncode, told.stdout.count(b'\n'), told.stderr),
           (1, 3, b'palimpsest: damaged on the server, left out: Alpha revision 2\n'))


@scene
def a_list_of_titles_names_what_it_goes_past(binary):
    with with_damage(binary, ['Alpha', 'Beta', 'Gamma'], [('Beta', 3)]) as server:
        got = server.json('GET', path('title', '')).body
        eq(got['items'], ['Alpha', 'Gamma'])
        eq(got['damaged'], [{'title': 'Beta', 'rev': 3, 'tid': tid(3)}])
        problem(server.request('GET', path('html', 'Beta')), 500, 'corrupt')
        got = explain(server, 'Beta')
        eq((got['rev'], got['state'], got['superseded_by']['rev']), (2, 'recent', 3))
        eq(got['damaged'], [{'title': 'Beta', 'rev': 3, 'tid': tid(3)}])
        eq([i['rev'] for i in history(server, 'Beta')['items']], [2, 1])


@scene
def an_index_cut_off_under_a_server_ends_it_with_a_sentence(binary):
    with with_damage(binary, [f'T{n}' for n in range(50)], []) as server:
        os.truncate(server.data / 'index' / 'data.mdb', 8192)
        try:
            for n in range(50):
                server.request('GET', path('html', f'T{n}'))
        except (OSError, http.client.HTTPException):
            pass
        eq(server.wait_exit(), 3, 'exit code')
        check('error store.unreadable file="' in server.stderr(), server.stderr())
        check('/index/data.mdb" offset=' in server.stderr(), server.stderr())


@scene
def a_log_cut_off_under_a_server_costs_what_was_cut_off(binary):
    with page_server(binary) as server:
        for n in range(20):
            put(server, f'T{n}', 1, os.urandom(3000))
        put(server, 'T0', 2, b'newer')
        wait_until(lambda: figure(server, 'palimpsest_engine_overlay_rows') == 0, 'the index')
        eq(server.restart().process.poll(), None)
        segment = server.data / 'log' / '00000001.seg'
        os.truncate(segment, 30000)
        answers = [server.request('GET', path('html', f'T{n}', 1)).status for n in range(20)]
        check(set(answers) == {200, 500}, f'{answers}')
        eq(sorted(answers), answers, 'what was cut off is what lay behind')
        problem(server.request('GET', path('html', 'T19')), 500, 'corrupt')
        eq(server.request('GET', '/healthz').status, 200)
        server.kill9()


main()
