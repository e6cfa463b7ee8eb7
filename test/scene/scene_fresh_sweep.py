"""Goal: what the wiki has done to a page that nobody reads, and of which nobody told, is found within a period; it costs few
calls, waits for a wiki that is away, and goes on after a kill where it was.
Method: a scripted wiki, a server whose clock is moved by days; what became of renders is seen by explain, which asks nobody."""
import contextlib
import time
import urllib.parse
from concurrent.futures import ThreadPoolExecutor

from cli import Client
from harness import check, eq, main, scene, wait_until
from origin import Origin, status_of
from page_help import get, path
from render_help import name_of, origin_server

LONG = ('--set', 'page.historical_ttl=90d', '--set', 'page.grace_ttl=90d')


def now():
    """As the wiki writes instants."""
    return time.strftime('%Y-%m-%dT%H:%M:%SZ', time.gmtime())


def domain_of(server):
    domain, = server.json('GET', '/v1/admin.change').body['domains']
    return domain


def lap(server, number):
    """Moves the clock by a period; the lap of this number since the start of the server comes to its end."""
    server.clock(advance='24h')
    wait_until(lambda: domain_of(server)['sweep']['laps'] >= number, f'lap {number} is over')


def metric(server, name):
    """None: there is no such line."""
    lines = server.request('GET', '/metrics').body.decode().splitlines()
    start = f'palimpsest_{name}{{domain="localhost"}} '
    return next((int(line.removeprefix(start)) for line in lines if line.startswith(start)), None)


def state(server, *name):
    answer = server.json('GET', path('explain', *name))
    return answer.body['state'] if answer.status == 200 else answer.body['reason']


def titles_asked(origin, kind='words'):
    """The titles of each call, in order."""
    calls = []
    for seen, target, _, body in list(origin.seen):
        if seen == kind:
            query = target.partition('?')[2] or body.decode()
            calls.append(urllib.parse.parse_qs(query)['titles'][0].split('\x1f')[1:])
    return calls


def store_titles(origin, server, count):
    """So many titles that the wiki has, stored while the first lap, of nothing, is over."""
    titles = [f'T{i:03d}' for i in range(count)]
    wait_until(lambda: domain_of(server)['sweep']['laps'] == 1, 'nothing is stored')
    for i, title in enumerate(titles):
        origin.page(title, (i + 1, title))
        server.request_again('PUT', path('html', title, i + 1), {'Content-Type': 'text/html'}, title)
    return titles


@scene
def wikis_that_hang_hold_up_no_other(binary):
    hanging = [f'h{i}' for i in range(6)]

    def domains():
        return server.json('GET', '/v1/admin.change').body['domains']

    with Origin() as origin, contextlib.ExitStack() as stack:
        slow = {domain: stack.enter_context(Origin()) for domain in hanging}
        options = [option for domain in hanging for option in slow[domain].options(domain)]
        server = stack.enter_context(origin_server(binary, origin, *options, *LONG))
        wait_until(lambda: {d['sweep']['laps'] for d in domains()} == {1}, 'nothing is stored')
        for domain in (*hanging, 'localhost'):
            server.request_again('PUT', f'/{domain}/v1/page/html/A/1', {'Content-Type': 'text/html'}, 'x')
        origin.page('A', (1, 'x'))
        gates = [stack.enter_context(one.gate('words')) for one in slow.values()]
        server.clock(advance='24h')
        wait_until(lambda: all(gate.waiting for gate in gates), 'each of them is asked')
        wait_until(lambda: max(d['sweep']['laps'] for d in domains()) == 2, 'the other is swept')
        eq({d['failures'] for d in domains()}, {0}, 'none was given up for it')
        for gate in gates:
            gate.open()


@scene
def sweeps_of_one_host_leave_room_for_readers(binary):
    """A farm: all domains are of one host, and due at once."""
    farm = [f'd{i:02d}' for i in range(24)]

    def domains():
        return {d['domain']: d for d in server.json('GET', '/v1/admin.change').body['domains']}

    def laps():
        return {d['sweep']['laps'] for name, d in domains().items() if name in farm}

    def waiting():
        return sum(d['waiting'] for d in domains().values())

    with Origin() as origin, contextlib.ExitStack() as stack:
        options = [option for domain in farm for option in origin.options(domain, domain=domain)]
        server = stack.enter_context(origin_server(binary, origin, *options, *LONG, '--set',
                                                   'domains.localhost.origin.sweep_period=never'))
        wait_until(lambda: laps() == {1}, 'nothing is stored')
        origin.page('A', (1, 'x'))
        for domain in (*farm, 'localhost'):
            server.request_again('PUT', f'/{domain}/v1/page/html/A/1', {'Content-Type': 'text/html'}, 'x')
        with ThreadPoolExecutor(1) as reader, origin.gate('words') as gate:
            server.clock(advance='24h')
            wait_until(lambda: gate.waiting == 4, 'four of them are asked')
            answer = reader.submit(get, server, 'A')
            wait_until(lambda: gate.waiting == 5 or answer.done(), 'a reader of another domain is let in')
            eq((gate.waiting, waiting()), (5, 5), 'the other sweeps have not begun')
            gate.open()
            eq(answer.result().status, 200)
        wait_until(lambda: laps() == {2}, 'each has its turn')
        eq({d['failures'] for d in domains().values()}, {0})


@scene
def text_that_was_suppressed_is_hidden_though_nobody_reads_it(binary):
    with Origin() as origin:
        origin.page('A', (1, 'secret'), (2, 'second'))
        with origin_server(binary, origin, *LONG) as server:
            wait_until(lambda: domain_of(server)['sweep']['laps'] == 1, 'nothing is stored')
            rev, render = name_of(get(server, 'A', 1))
            get(server, 'A')
            lap(server, 2)
            eq(state(server, 'A', rev, render), 'recent')
            eq((origin.count('words'), origin.count('revisions')), (1, 1), 'nobody had asked for it before')
            lap(server, 3)
            eq((origin.count('words'), origin.count('revisions')), (2, 1), 'the page was not touched')
            origin.hide('A', 1)
            origin.touched['A'] = now()
            lap(server, 4)
            eq(state(server, 'A', rev, render), 'suppressed')
            eq(state(server, 'A'), 'current')
            eq((origin.count('words'), origin.count('revisions'), origin.count('meta')), (3, 2, 2))
            eq(domain_of(server)['missed'], 2, 'the word of the page, and that revision')
            eq([metric(server, name) for name in ('sweep_found_total', 'check_calls_total', 'check_words_total', 'sweep_titles',
                                                  'sweep_late_seconds', 'check_closed')], [2, 5, 5, 1, 0, 0])
            eq(metric(server, 'sweep_age_seconds'), 0, 'the lap is over')
            get(server, 'A', rev, render, status=410)


@scene
def a_page_that_was_deleted_is_hidden_though_nobody_reads_it(binary):
    with Origin() as origin:
        origin.page('Gone', (1, 'first'))
        origin.page('There', (2, 'second'))
        with origin_server(binary, origin, *LONG) as server:
            wait_until(lambda: domain_of(server)['sweep']['laps'] == 1, 'nothing is stored')
            names = {title: name_of(get(server, title)) for title in ('Gone', 'There')}
            origin.delete('Gone')
            lap(server, 2)
            eq(state(server, 'Gone', *names['Gone']), 'deleted')
            eq(state(server, 'There', *names['There']), 'current')
            eq(domain_of(server)['missed'], 1)
            eq(origin.count('words'), 1, 'both in one call')


@scene
def a_thousand_titles_cost_twenty_calls(binary):
    with Origin() as origin:
        titles = [f'T{i:04d}' for i in range(1000)]
        for i, title in enumerate(titles):
            origin.page(title, (i + 1, title))
        with origin_server(binary, origin, '--set', 'domains.localhost.origin.sweep_period=never') as server:
            for i, title in enumerate(titles):
                server.request_again('PUT', path('html', title, i + 1), {'Content-Type': 'text/html'}, title)
            eq(domain_of(server)['sweep']['state'], 'off')
            client = Client(binary, server)
            doc, = client.json('fresh', 'sweep', 'localhost', '--wait')
            eq((doc['sweep']['asked'], doc['sweep']['titles'], doc['missed']), (1000, 1000, 0))
            calls = titles_asked(origin)
            eq(len(calls), 20)
            eq(sorted(title for call in calls for title in call), titles, 'each once')
            eq(origin.count('revisions'), 0)


@scene
def a_wiki_that_is_away_and_a_kill_leave_nothing_out(binary):
    with Origin() as origin:
        with origin_server(binary, origin, *LONG) as server:
            titles = store_titles(origin, server, 120)
            server.clock(advance='24h')
            wait_until(lambda: domain_of(server)['sweep']['asked'] == 50, 'the first call')
            eq(titles_asked(origin), [titles[:50]])
            origin.fault('words', status_of(503, retry_after='1'))
            server.clock(advance='23h')
            wait_until(lambda: domain_of(server)['sweep']['failures'] >= 2, 'the wiki is away')
            domain = domain_of(server)
            eq((domain['sweep']['asked'], domain['sweep']['at'], domain['sweep']['fails']), (50, titles[49], True))
            check(domain['sweep']['late_s'] > 3600, domain)
            server.kill9()
            server.start()
            server.clock(advance='48h')     # the clock of a test begins anew
            eq(domain_of(server)['sweep']['at'], titles[49], 'it is where it was')
            origin.fault('words', None)
            wait_until(lambda: domain_of(server)['sweep']['laps'] == 1, 'it catches up')
            after = [call for call in titles_asked(origin) if call[0] == titles[50]][-1]
            eq(after, titles[50:100])
            eq(titles_asked(origin)[-1][-20:], titles[100:])


@scene
def what_was_not_asked_since_a_kill_is_asked_and_no_more(binary):
    """Kills between a question and its note: what follows is asked for again, and nothing before it."""
    with Origin() as origin:
        with origin_server(binary, origin, *LONG) as server:
            titles = store_titles(origin, server, 100)
            server.clock(advance='24h')
            wait_until(lambda: domain_of(server)['sweep']['asked'] == 50, 'the first call')
            with origin.gate('words') as gate:
                server.clock(advance='12h')
                wait_until(lambda: gate.waiting == 1, 'the second call is under way')
                server.kill9()
            server.start()
            server.clock(advance='48h')
            wait_until(lambda: domain_of(server)['sweep']['laps'] == 1, 'the lap is over')
            eq([call for call in titles_asked(origin)][:3], [titles[:50], titles[50:], titles[50:]])


@scene
def renders_that_no_word_calls_old_grow_old(binary):
    """A magic word: its page is never touched."""
    with Origin() as origin:
        origin.page('A', (1, 'pages: '))
        origin.stamp = '17'
        with origin_server(binary, origin, '--set', 'domains.localhost.origin.rerender_after=1h') as server:
            for _ in range(3):
                check(b'pages: 17' in get(server, 'A').body, 'as it was')
            origin.stamp = '18'
            check(b'pages: 17' in get(server, 'A').body, 'nothing tells of it')
            server.clock(advance='61m')
            check(b'pages: 18' in get(server, 'A').body, 'its next reader has it made anew')
            server.clock(advance='61m')
            for _ in range(3):
                get(server, 'A')
            eq(origin.count('render'), 3, 'once an hour, also when nothing has changed')


@scene
def nobody_makes_anew_what_a_template_touched_where_it_is_told_so(binary):
    with Origin() as origin:
        origin.page('A', (1, 'text '))
        origin.stamp = 'before'
        with origin_server(binary, origin, '--set', 'domains.localhost.origin.rerender=never') as server:
            get(server, 'A')
            origin.stamp = 'after'
            origin.touched['A'] = now()
            server.clock(advance='10m')
            check(b'before' in get(server, 'A').body, 'it stays')
            eq(origin.count('render'), 1)
            origin.page('A', (1, 'text '), (2, 'new '))
            server.clock(advance='10m')
            check(b'new after' in get(server, 'A').body, 'but for a newer revision')


main()
