"""Goal: /metrics tells what origins are asked, how they answer and how long they take, under labels that do not grow
with what clients send. Method: a server in front of a scripted origin that counts; its figures are compared."""
import re

import origin as faults
from harness import check, eq, main, scene, wait_until
from origin import Origin, status_of
from page_help import get, page_server, path, problem
from render_help import Crowd

JSON = {'Content-Type': 'application/json'}


def figures(server, name):
    """{labels: value} of one metric; labels as a frozenset of (name, value)."""
    text = server.request('GET', '/metrics').body.decode()
    found = {}
    for labels, value in re.findall(rf'^palimpsest_{name}(?:\{{(.*)\}})? (\S+)$', text, re.M):
        found[frozenset(re.findall(r'(\w+)="([^"]*)"', labels))] = float(value)
    return found


def figure(server, name, **labels):
    return figures(server, name).get(frozenset(labels.items()), 0)


@scene
def each_request_is_counted_by_domain_kind_and_outcome(binary):
    with Origin() as origin:
        origin.page('A', (7, 'new'))
        options = origin.options('localhost', 'b.test', retries=1)
        with page_server(binary, *options, '--set', 'flight.error_base=60s', '--set', 'flight.error_max=60s') as server:
            def asked(kind, outcome, domain='localhost'):
                return figure(server, 'origin_requests_total', kind=kind, outcome=outcome, domain=domain)
            get(server, 'A')
            eq([asked(kind, 'fine') for kind in ('siteinfo', 'meta', 'render')], [1, 1, 1])
            eq(figures(server, 'origin_remembered_total').keys(),
               {frozenset({('domain', 'localhost')}), frozenset({('domain', 'b.test')})})
            problem(get(server, 'Missing', status=404), 404, 'not_found')
            eq(asked('meta', 'no_page'), 1)
            origin.page('B', (8, 'b'))
            origin.fault('render', faults.bad_json)
            problem(get(server, 'B', status=502), 502, 'origin_failed')
            eq(asked('render', 'failed'), 1)    # a whole reply, but of no use
            origin.fault('render', None)
            eq(figure(server, 'origin_retries_total', domain='localhost'), 0)
            for _ in range(3):
                problem(get(server, 'B', status=502), 502, 'origin_failed')     # asks nobody
            eq(figure(server, 'origin_remembered_total', domain='localhost'), 3)
            origin.page('C', (9, 'c'))
            origin.fault('render', faults.once(status_of(500)))
            get(server, 'C')
            eq((asked('render', 'fine'), figure(server, 'origin_retries_total', domain='localhost')), (2, 1))
            origin.fault('transform', status_of(503))
            server.request('POST', '/localhost/v1/transform/wikitext/to/html', JSON, b'{"wikitext": "x"}')
            eq(asked('transform', 'busy'), 1)
            eq(server.request('GET', '/b.test/v1/page/html/A').status, 200)
            eq((asked('render', 'fine', 'b.test'), asked('render', 'fine')), (1, 2))
            for kind, calls in origin.calls.items():
                counted = sum(value for labels, value in figures(server, 'origin_requests_total').items()
                              if ('kind', kind) in labels)
                retried = 1 if kind == 'render' else 0
                eq(counted + retried, calls, kind)
            times = figures(server, 'origin_request_seconds_count')
            eq(sum(times.values()), sum(figures(server, 'origin_requests_total').values()))
            check(all({name for name, _ in labels} == {'kind', 'domain'} for labels in times), times)


@scene
def what_is_under_way_and_what_waits_is_told(binary):
    with Origin() as origin:
        for i in range(5):
            origin.page(f'T{i}', (i + 1, 'x'))
        with page_server(binary, *origin.options('localhost', concurrency=2)) as server, origin.gate('render') as gate:
            def now(name):
                return figure(server, name, domain='localhost')
            crowd = Crowd(server, [(path('html', f'T{i}'), None) for i in range(5)])
            wait_until(lambda: gate.waiting == 2 and now('origin_renders_waiting') == 3, 'two are made, three wait')
            eq((now('origin_renders_making'), now('origin_open_requests')), (2, 2))
            gate.open()
            eq({answer.status for answer in crowd.wait()}, {200})
            eq((now('origin_renders_making'), now('origin_renders_waiting'), now('origin_open_requests')), (0, 0, 0))


@scene
def labels_do_not_grow_with_titles_or_domains(binary):
    names = [f'd{i:02}.test' for i in range(40)]
    with Origin() as origin:
        for i in range(30):
            origin.page(f'T{i}', (i + 1, 'x'))
        with page_server(binary, *origin.options(*names)) as server:
            for i in range(30):
                eq(server.request('GET', f'/d00.test/v1/page/html/T{i}').status, 200)
            for name in names:
                eq(server.request('GET', f'/{name}/v1/page/html/T0').status, 200)
            asked = figures(server, 'origin_requests_total')
            domains = {value for labels in asked for name, value in labels if name == 'domain'}
            eq(len(domains), 33)
            check('other' in domains, domains)
            eq(sum(asked.values()), sum(origin.calls.values()))     # and none is lost
            check('T7' not in server.request('GET', '/metrics').body.decode(), 'no title is a label')


@scene
def figures_of_many_wikis_and_queues_have_room_together(binary):
    """Both are bounded, and what one leaves is the other's bound."""
    domains = [f'{i:02}{"x" * 112}.org' for i in range(33)]
    with Origin() as origin:
        origin.page('A', (7, 'new'))
        with page_server(binary, *origin.options(*domains)) as server:
            for domain in domains:
                for content in ('html', 'wikitext', 'lint'):
                    eq(server.request('GET', f'/{domain}/v1/page/{content}/A').status, 200)
                eq(server.request('POST', f'/{domain}/v1/transform/wikitext/to/html/A', JSON, b'{"wikitext": "x"}').status, 200)
            few = server.request('GET', '/metrics').body
            for i in range(256):
                queue = {'queue_name': f'{i:03}{chr(34) * 509}', 'lease_timeout': '1m', 'expire_timeout': '24h',
                         'requested_partitions': 8}
                eq(server.request('POST', '/v1/queues.create', JSON, queue).status, 200)
            got = server.request('GET', '/metrics')
            eq(got.status, 200, got.body[:500])
            many = got.body.decode().splitlines()
            check('palimpsest_queue_left_out 1' in many, 'not all queues have room')
            names = {line.partition(' ')[0] for line in many}
            missing = [line for line in few.decode().splitlines() if line.partition(' ')[0] not in names]
            eq(missing, [], 'what was there is there still')


main()
