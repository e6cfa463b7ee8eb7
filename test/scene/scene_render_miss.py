"""Goal: what is missing is made by the origin, stored and answered, once. Method: a server in front of a scripted
origin that counts; storms are held at a gate until all have asked."""
import re
import threading

from harness import check, eq, main, scene, wait_until
from origin import Origin
from page_help import get, history, page_server, path, problem, put


def origin_server(binary, origin, *args, **named):
    return page_server(binary, *origin.options('localhost'), *args, **named)


def cache_of(answer):
    return answer.headers['X-Restbase-Cache']


@scene
def a_missing_page_is_made_stored_and_served(binary):
    with Origin() as origin:
        origin.page('A', (1, 'old'), (7, 'new'))
        with origin_server(binary, origin) as server:
            first = get(server, 'A')
            rev, tid = re.fullmatch(r'"(\d+)/([0-9a-f-]{36})"', first.headers['ETag']).groups()
            eq(rev, '7')
            check(f'<meta property="mw:TimeUuid" content="{tid}"/>'.encode() in first.body, 'the tid in the head')
            check(b'>new</p>' in first.body, 'the newest text')
            eq(cache_of(first), 'miss')
            eq(first.headers['Cache-Status'], 'palimpsest; fwd=miss; fwd-status=200; stored; detail=leader')
            eq(first.headers['Content-Location'], f'/localhost/v1/page/html/A/7/{tid}')
            check('Specs/HTML/2.6.0' in first.headers['Content-Type'], first.headers['Content-Type'])
            eq(first.headers['Content-Language'], 'en')
            again = get(server, 'A')
            eq((again.body, again.headers['ETag'], cache_of(again)), (first.body, first.headers['ETag'], 'hit'))
            eq(again.headers['Cache-Status'], 'palimpsest; hit')
            parsoid = get(server, 'A', 7, tid, content='data-parsoid')
            check(b'"ids"' in parsoid.body, parsoid.body)
            eq(origin.count('render'), 1)
            eq(history(server, 'A')['items'][0]['state'], 'current')
            server.restart()
            eq(get(server, 'A').body, first.body)
            eq(origin.count('render'), 1)


main()
