"""Goal: whatever an origin does, a clear answer, nothing wrong stored, nothing leaked, and all well once it is well
again. Method: a server in front of an origin that is told how to fail; answers, the store and memory of errors."""
import json
import subprocess
import threading

import origin as faults
from harness import REQUEST_TIMEOUT, check, eq, main, scene, wait_until
from origin import Origin, status_of
from page_help import get, history, later, page_server, path, problem
from render_help import NO_CACHE, Crowd, all_is_well, ask_anew, ask_transform, cache_of, impatient_server, meets, metric


def nothing_stored(server, title='A'):
    problem(server.request('GET', path('history', title)), 404, 'not_found')


BROKEN = {
    'cut': faults.cut, 'cut_at_once': faults.cut_at_once, 'long_length': faults.long_length, 'endless': faults.endless,
    'bad_json': faults.bad_json, 'other_type': faults.other_type, 'not_html': faults.not_html,
    'other_revision': faults.other_revision, '500': status_of(500), '502': status_of(502), '504': status_of(504),
    'redirect': status_of(302, location='http://127.0.0.1:1/elsewhere'), '304': status_of(304), '201': status_of(201),
}


@scene
def a_broken_answer_is_502_and_stores_nothing(binary):
    with Origin() as origin:
        origin.page('A', (7, 'new'))
        with impatient_server(binary, origin) as server:
            get(server, 'A')
            server.request('DELETE', path('all', 'A'))
            later(server)
            for name, fault in BROKEN.items():
                meets(server, origin, name, fault, stored=410)
            all_is_well(server, origin)


@scene
def a_wiki_that_is_down_is_told_of_once_a_minute(binary):
    """A line for each missing title would fill the log as fast as anybody asks."""
    with Origin() as origin:
        origin.page('A', (7, 'new'))
        with impatient_server(binary, origin) as server:
            get(server, 'A')
            origin.down()
            for number in range(50):
                eq(server.request('GET', path('html', f'T{number}')).status, 502)
            lines = [line for line in server.stderr().splitlines() if 'render.failed' in line]
            eq(len(lines), 1, f'{len(lines)} lines')
            check('count=1' in lines[0] and 'domain=localhost' in lines[0], lines[0])


@scene
def a_broken_api_is_502_too(binary):
    with Origin() as origin:
        origin.page('A', (7, 'new'))
        with impatient_server(binary, origin) as server:
            get(server, 'A')    # the rules of titles are known
            for name in ('cut', 'bad_json', '500', 'endless', 'redirect'):
                origin.fault('meta', BROKEN[name])
                answer = ask_anew(server, origin, 'meta', path('html', 'B'))
                check(answer.status == 502, f'{name}: {answer.status} {answer.body}')
            nothing_stored(server, 'B')
            origin.fault('meta', status_of(404))
            problem(ask_anew(server, origin, 'meta', path('html', 'B')), 502, 'origin_failed')  # not "no such page"


@scene
def an_origin_that_hangs_is_504(binary):
    with Origin() as origin:
        origin.page('A', (7, 'new'))
        with impatient_server(binary, origin, timeout='2s') as server:
            origin.fault('render', faults.hang)
            problem(server.request('GET', path('html', 'A')), 504, 'origin_timeout')
            nothing_stored(server)
            origin.fault('render', None)
            eq(ask_anew(server, origin, 'render', path('html', 'A')).status, 200)
            origin.fault('transform', faults.hang)
            problem(ask_transform(server), 504, 'origin_timeout')


@scene
def an_origin_that_is_busy_is_503_and_says_when(binary):
    with Origin() as origin:
        origin.page('A', (7, 'new'))
        with impatient_server(binary, origin) as server:
            for code, wait in ((429, '7'), (503, '120')):
                origin.fault('render', status_of(code, retry_after=wait))
                answer = ask_anew(server, origin, 'render', path('html', 'A'))
                problem(answer, 503, 'origin_busy')
                check(int(wait) - 1 <= int(answer.headers['Retry-After']) <= int(wait), answer.headers['Retry-After'])
            for kind, content in (('meta', 'title'), ('wikitext', 'wikitext'), ('lint', 'lint')):
                origin.fault(kind, status_of(429, retry_after='200'))
                answer = ask_anew(server, origin, kind, path(content, 'A'))
                problem(answer, 503, 'origin_busy')
                check(199 <= int(answer.headers['Retry-After']) <= 200, f'{content}: {answer.headers["Retry-After"]}')
                origin.fault(kind, None)
            origin.fault('render', status_of(503))
            answer = ask_anew(server, origin, 'render', path('html', 'A'))
            problem(answer, 503, 'origin_busy')
            check(answer.headers['Retry-After'], 'some time')
            for code in (400, 413):
                origin.fault('render', status_of(code))
                problem(ask_anew(server, origin, 'render', path('html', 'A')), 400, 'bad_request#origin')


# What the wiki answers, and what that is to who asks for a render: docs/api.md, section 5.
TOLD = {400: (400, 'bad_request#origin'), 401: (403, 'access_denied#wiki'), 403: (403, 'access_denied#wiki'), 406: (400, 'bad_request#origin'),
        413: (400, 'bad_request#origin'), 429: (503, 'origin_busy'), 503: (503, 'origin_busy'),
        408: (503, 'origin_busy'), 425: (503, 'origin_busy'),
        500: (502, 'origin_failed'), 302: (502, 'origin_failed'),
        404: (502, 'origin_failed')}    # of what its api.php has: to an editor a 404 is a page that is not there
# To who asks for a transform; these are not remembered, so that only the wiki's own word says when to come again.
TOLD_TRANSFORM = {**TOLD, 406: (406, 'not_acceptable'), 413: (413, 'content_too_large')}


@scene
def each_failure_has_the_status_that_is_promised(binary):
    with Origin() as origin:
        for i, code in enumerate(TOLD):
            origin.page(f'T{code}', (20 + i, 'x'))
        origin.page('A', (7, 'hidden'), (8, 'new'))
        origin.hide('A', 7)
        with page_server(binary, *origin.options('localhost', retries=0)) as server:
            def ask(title, rev=None, headers=None, method='GET', content='html'):
                answer = server.request(method, path(content, title, rev), headers)
                return answer, answer.headers['Retry-After']
            for title, rev, status, kind in (('Nope', None, 404, 'not_found'), ('A', 99, 404, 'not_found'),
                                             ('A', 7, 410, 'suppressed')):
                answer, again = ask(title, rev)
                problem(answer, status, kind)
                eq(again, None, kind)       # asked for again, it is looked for again
            for code, (status, kind) in TOLD.items():
                origin.fault('render', status_of(code))
                answer, again = ask(f'T{code}')
                problem(answer, status, kind)
                check(int(again) >= 1, f'{code}: when it is forgotten')
            answer, again = ask('A', headers={'Cache-Control': 'only-if-cached'})
            problem(answer, 504, 'not_cached')
            eq(again, None)
            for code, (status, kind) in TOLD_TRANSFORM.items():
                origin.fault('transform', status_of(code))
                answer = ask_transform(server)
                problem(answer, status, kind)
                eq(answer.headers['Retry-After'], '1' if status == 503 else None, f'transform {code}')
            for content in ('lint', 'wikitext'):
                origin.fault(content, status_of(404))
                problem(ask('A', content=content)[0], 502, 'origin_failed')     # its api.php has it
                answer, _ = ask('A', 9, {'Content-Length': '0'}, 'PUT', content)
                eq((answer.status, answer.headers['Allow']), (405, 'GET, HEAD, OPTIONS'))


@scene
def what_is_safe_is_tried_again(binary):
    with Origin() as origin:
        origin.page('A', (7, 'new'))
        with impatient_server(binary, origin, retries=1) as server:
            origin.fault('render', faults.once(status_of(500)))
            get(server, 'A')
            eq(origin.count('render'), 2)


@scene
def an_origin_that_is_down_takes_nothing_of_what_is_stored(binary):
    with Origin() as origin:
        origin.page('A', (7, 'new'))
        with impatient_server(binary, origin) as server:
            first = get(server, 'A')
            origin.down()
            eq(cache_of(get(server, 'A')), 'hit')
            problem(server.request('GET', path('html', 'B')), 502, 'origin_failed')
            stale = get(server, 'A', headers=NO_CACHE)
            eq((stale.body, stale.headers['ETag'], cache_of(stale)), (first.body, first.headers['ETag'], 'hit'))
            eq(stale.headers['Cache-Status'], 'palimpsest; hit; fwd=request; detail=stale-error')
            eq(stale.headers['Warning'], '111 palimpsest "Revalidation Failed"')
            problem(server.request('GET', path('html', 'A'), {'Cache-Control': 'no-cache, stale-if-error=0'}), 502,
                    'origin_failed')
            server.clock(advance='8d')
            problem(server.request('GET', path('html', 'A'), NO_CACHE), 502, 'origin_failed')
            server.restart()    # and the rules of titles are not known any more
            eq(cache_of(get(server, 'A')), 'hit')
            problem(server.request('GET', path('html', 'B')), 502, 'origin_failed')
            problem(server.request('PUT', path('html', 'B', 1), None, b'x'), 502, 'origin_failed')
            eq(server.request('GET', path('history', 'A')).status, 200)


@scene
def a_failure_is_shared_and_remembered(binary):
    with Origin() as origin:
        origin.page('A', (7, 'new'))
        options = origin.options('localhost', retries=0)
        with page_server(binary, *options, '--set', 'flight.error_base=60s', '--set', 'flight.error_max=60s') as server:
            origin.fault('render', status_of(500))
            with origin.gate('render') as gate:
                crowd = Crowd(server, [(path('html', 'A'), None)] * 50)
                wait_until(lambda: metric(server, 'flight_waiters') == 50, 'all have asked')
                gate.open()
                eq({answer.status for answer in crowd.wait()}, {502})
            again = server.request('GET', path('html', 'A'))
            problem(again, 502, 'origin_failed')
            check(1 <= int(again.headers['Retry-After']) <= 72, again.headers['Retry-After'])
            problem(server.request('GET', path('html', 'A'), NO_CACHE), 502, 'origin_failed')
            eq(origin.count('render'), 1)
            problem(server.request('GET', path('html', 'Missing')), 404, 'not_found')


@scene
def a_thousand_distinct_misses_at_once(binary):
    with Origin() as origin:
        for i in range(1000):
            origin.page(f'T{i}', (i + 1, f'text {i}'))
        with page_server(binary, *origin.options('localhost')) as server:
            done = []

            def ask(first):
                for i in range(first, 1000, 50):
                    done.append((i, server.request('GET', path('html', f'T{i}'))))
            threads = [threading.Thread(target=ask, args=(first,), daemon=True) for first in range(50)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join(REQUEST_TIMEOUT)
            eq(len(done), 1000)
            eq({answer.status for _, answer in done}, {200})
            check(all(f'text {i}<'.encode() in answer.body for i, answer in done), 'each its own')
            eq(origin.count('render'), 1000)
            wait_until(lambda: (metric(server, 'flights'), metric(server, 'flight_waiters')) == (0, 0), 'none is left')


@scene
def a_wiki_that_hangs_delays_no_other(binary):
    with Origin() as hung, Origin() as well:
        for i in range(12):
            hung.page(f'T{i}', (i + 1, 'late'))
            well.page(f'T{i}', (i + 1, 'soon'))
        options = [*hung.options('hung.test'), *well.options('well.test')]
        limits = ('--set', 'flight.makes_max=4', '--set', 'flight.makes_source_max=3', '--set', 'flight.keys_max=20',
                  '--set', 'flight.keys_source_max=12')
        with page_server(binary, *options, *limits) as server, hung.gate('render') as gate:
            crowd = Crowd(server, [(f'/hung.test/v1/page/html/T{i}', None) for i in range(12)])
            wait_until(lambda: metric(server, 'flight_waiters') == 12 and gate.waiting == 3, 'all wait for the one that hangs')
            problem(server.request('GET', '/hung.test/v1/page/html/T12'), 503, 'overloaded')
            for i in range(4):
                answer = server.request('GET', f'/well.test/v1/page/html/T{i}')
                eq((answer.status, b'soon' in answer.body), (200, True), answer.body)
            eq((gate.waiting, metric(server, 'flight_waiters')), (3, 12))
            gate.open()
            eq([answer.status for answer in crowd.wait()], [200] * 12)


@scene
def lint_that_hangs_delays_no_metadata(binary):
    with Origin() as origin:
        origin.page('A', (7, 'new'))
        limits = ('--set', 'flight.makes_source_max=1')
        with page_server(binary, *origin.options('localhost'), *limits) as server, origin.gate('lint') as gate:
            crowd = Crowd(server, [(path('lint', 'A'), None)])
            wait_until(lambda: gate.waiting == 1, 'it hangs')
            for content in ('title', 'wikitext'):
                eq(server.request('GET', path(content, 'A')).status, 200)
            eq(gate.waiting, 1)
            gate.open()
            eq([answer.status for answer in crowd.wait()], [200])


@scene
def more_misses_than_the_limits_are_refused(binary):
    with Origin() as origin:
        for i in range(4):
            origin.page(f'T{i}', (i + 1, 'x'))
        limits = ('--set', 'flight.keys_max=2', '--set', 'flight.waiters_max=3')
        with page_server(binary, *origin.options('localhost'), *limits) as server, origin.gate('render') as gate:
            crowd = Crowd(server, [(path('html', 'T0'), None)] * 3 + [(path('html', 'T1'), None)])
            wait_until(lambda: metric(server, 'flight_waiters') == 4, 'four wait')
            for title in ('T0', 'T2'):
                refused = server.request('GET', path('html', title))
                problem(refused, 503, 'overloaded')
                eq(refused.headers['Retry-After'], '1')
            gate.open()
            eq([answer.status for answer in crowd.wait()], [200] * 4)


@scene
def killed_during_a_storm_it_starts_again(binary):
    with Origin() as origin:
        for i in range(20):
            origin.page(f'T{i}', (i + 1, f'text {i}'))
        with page_server(binary, *origin.options('localhost')) as server:
            for _ in range(3):
                with origin.gate('render') as gate:
                    # Those that were stored before it died are answered at once.
                    missing = sum(server.request('GET', path('history', f'T{i}')).status == 404 for i in range(20))
                    crowd = Crowd(server, [(path('html', f'T{i % 20}'), None) for i in range(60)])
                    wait_until(lambda: metric(server, 'flight_waiters') == 3 * missing, 'all have asked')
                    gate.open()     # some are being stored when it dies
                    server.kill9()
                    crowd.over()
                server.start()
            for i in range(20):
                check(f'text {i}<'.encode() in get(server, f'T{i}').body, 'it is right')
                eq(len(server.json('GET', path('history', f'T{i}')).body['items']), 1)
            eq(server.sigterm(), 0)
            checked = subprocess.run([server.binary, 'check', '--data', server.data], capture_output=True, text=True,
                                     timeout=60, check=False)
            eq(checked.returncode, 0, checked.stdout + checked.stderr)


@scene
def a_drain_answers_who_waits_at_once(binary):
    with Origin() as origin:
        origin.page('A', (7, 'new'))
        origin.page('B', (8, 'stored'))
        with page_server(binary, *origin.options('localhost')) as server:
            get(server, 'B')
            with origin.gate('render') as gate, origin.gate('transform'):
                crowd = Crowd(server, [(path('html', 'A'), None)] * 20)
                transform = []
                thread = threading.Thread(target=lambda: transform.append(ask_transform(server)), daemon=True)
                thread.start()
                wait_until(lambda: metric(server, 'flight_waiters') == 20 and gate.waiting == 1 and
                           origin.count('transform') == 1, 'all wait')
                eq(server.sigterm(), 0)     # sooner than drain_timeout
                for answer in crowd.wait():
                    problem(answer, 503, 'shutting_down')
                    check(answer.headers['Retry-After'], 'when to come back')
                thread.join(REQUEST_TIMEOUT)
                eq([answer.status for answer in transform], [503])
            server.start()
            eq(cache_of(get(server, 'B')), 'hit')


@scene
def no_memory_is_left_behind_by_failures(binary):
    with Origin() as origin:
        origin.page('A', (7, 'new'))
        with impatient_server(binary, origin) as server:
            for fault in (faults.cut, status_of(500), faults.bad_json, None):
                origin.fault('render', fault)
                for i in range(20):
                    server.request('GET', path('html', 'A'), NO_CACHE)
            for name in ('flights', 'flight_waiters', 'flight_makes'):
                wait_until(lambda name=name: metric(server, name) == 0, 'none is left')
            eq(json.loads(server.request('GET', path('history', 'A')).body)['items'][0]['state'], 'current')
        # what was not freed, the sanitized build says at its exit


main()
