"""Goal: rules that feed each other come to an end, which is counted and told.
Method: the real binary with two rules, what one does being an event for the other: by requests to the server itself, by a service
that passes a header on, and by a queue whose consumer does."""
import base64
import http.client
import json

from change_help import figure, tell_events
from harness import REQUEST_TIMEOUT, check, eq, main, scene, wait_until
from reload_help import Reloaded
from sink_help import Sink

HOPS_MAX = 15
HEADER = 'Palimpsest-Hops'
PLAIN = 'domains: { localhost: {} }\nchange: { rules: { none: { match: { stream: none }, effect: drop } } }\n'


def event(stream, title='A'):
    return {'meta': {'stream': stream, 'domain': 'localhost'}, 'page_title': title}


def calling(url):
    def one(name, other):
        return f'{name}: {{ match: {{ stream: {name} }}, effect: http, url: "{url}/v1/events", ' \
               f'body: {{ meta: {{ stream: {other}, domain: "{{domain}}" }}, page_title: "{{title}}" }} }}'
    return f'domains: {{ localhost: {{}} }}\nchange:\n  rules:\n    {one("a", "b")}\n    {one("b", "a")}\n'


def post(server, doc, hops):
    """As a service that passes the header on."""
    connection = http.client.HTTPConnection(server.host, server.port, timeout=REQUEST_TIMEOUT)
    connection.request('POST', '/v1/events', json.dumps(doc), {'Content-Type': 'application/json', HEADER: str(hops)})
    eq(connection.getresponse().status, 201)
    connection.close()


def of_rules(server, name, label):
    return sum(figure(server, f'{name}_total{{rule="{rule}",{label}}}') for rule in 'ab')


def ends(server):
    """All effects that may follow were done, and no more."""
    wait_until(lambda: of_rules(server, 'rule_events', 'what="looped"') == 1, 'the end of the loop', timeout=60)
    wait_until(lambda: of_rules(server, 'rule_outcomes', 'outcome="done"') == HOPS_MAX, 'the ends of all effects')
    eq(figure(server, 'event_log_taken_total'), HOPS_MAX + 1)
    line = wait_until(lambda: next((one for one in server.stderr().splitlines() if ' change.loop ' in one), None), 'the line in the log')
    check(f'hops={HOPS_MAX}' in line and 'events=1' in line and 'feed each other' in line, line)


@scene
def a_header_that_was_spoilt_on_its_way_ends_the_loop_too(binary):
    with Sink() as sink, Reloaded(binary, calling(sink.url)) as r:
        for n, hops in enumerate(('3, 15', '15x', '3, x', '-1', '256', '99999999999999999999')):
            post(r.server, event('a', f'N{n}'), hops)
        wait_until(lambda: of_rules(r.server, 'rule_events', 'what="looped"') == 6, 'all are taken for loops')
        post(r.server, event('a', 'last'), '3, 4')
        wait_until(lambda: len(sink.requests) == 1, 'two numbers are no loop')
        eq(sink.requests[0]['headers'][HEADER], '5')


@scene
def rules_that_call_their_own_server_end(binary):
    with Reloaded(binary, PLAIN) as r:
        r.reload(calling(f'http://127.0.0.1:{r.server.port}'))
        eq(sum('url leads to /v1/events' in line for line in r.lines() if 'reload.doubt' in line), 2)
        tell_events(r.server, event('a'))
        ends(r.server)
        stopped = [rule for rule in r.server.json('GET', '/v1/admin.change').body['rules'] if rule['looped']]
        eq([rule['looped'] for rule in stopped], [1])
        tell_events(r.server, event('a', 'B'))      # the next one begins anew
        wait_until(lambda: of_rules(r.server, 'rule_events', 'what="looped"') == 2, 'the end of the next loop', timeout=60)


@scene
def rules_end_by_a_service_that_passes_the_header_on(binary):
    seen = []
    with Reloaded(binary, PLAIN) as r:
        def answers(request):
            seen.append(int(request['headers'][HEADER]))
            post(r.server, json.loads(request['body']), request['headers'][HEADER])
        with Sink(answers) as sink:
            r.reload(calling(sink.url))
            tell_events(r.server, event('a'))
            ends(r.server)
            eq(seen, list(range(1, HOPS_MAX + 1)))


@scene
def rules_end_by_a_queue_whose_consumer_says_the_hops(binary):
    rules = '\n    '.join(f'{name}: {{ match: {{ stream: {name} }}, effect: produce, queue: work }}' for name in 'ab')
    with Reloaded(binary, f'domains: {{ localhost: {{}} }}\nchange:\n  rules:\n    {rules}\n') as r:
        eq(r.server.json('POST', '/v1/queues.create', body={'queue_name': 'work', 'lease_timeout': '10m', 'expire_timeout': '24h',
                                                          'requested_partitions': 1}).status, 200)
        tell_events(r.server, event('a'))
        encodings = []

        def consume():
            answer = r.server.json('POST', '/v1/queue.lease',
                                   body={'queue_name': 'work', 'batch_size': 1, 'client_id': 'c', 'request_timeout': '100ms'})
            for item in answer.body.get('items', []) if answer.status == 200 else []:
                encodings.append(item['encoding'])
                stream = json.loads(base64.b64decode(item['bytes']))['meta']['stream']
                _, found, hops = item['encoding'].partition('hops=')
                post(r.server, event('b' if stream == 'a' else 'a'), hops if found else 1)
            return len(encodings) == HOPS_MAX
        wait_until(consume, 'all items', timeout=60)
        ends(r.server)
        eq(encodings, ['application/json', *(f'application/json; hops={n}' for n in range(2, HOPS_MAX + 1))])


if __name__ == '__main__':
    main()
