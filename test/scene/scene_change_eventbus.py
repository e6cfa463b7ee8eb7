"""Goal: MediaWiki's extension EventBus may be pointed at us as it is. Each event that it sends is
taken and handed on as the bytes that came. Its jobs come back to their wiki with a signature that
holds. It is answered as EventGate answers.
Method: no wiki. What the extension sends, and how it takes jobs back, is in eventbus_help.py, of
both generations. The runner there computes the signature anew from what it gets, and wants the
very bytes."""
import concurrent.futures
import json
import random
import socket
import urllib.parse

from change_help import Client, figure, rule_comes_to, rule_of
from eventbus_help import (BATCH_BYTES_MAX, DT, GENERATIONS, ODD, PERFORMER, Runner, all_events,
                           batches, job, page_event, php_json, resource_change, signature_of)
from harness import check, eq, main, scene, wait_until
from reload_help import Reloaded
from sink_help import Sink

RULES = """domains:
  localhost: {{ origin: {{ url: "http://127.0.0.1:1/rest.php", hosts: [wiki.test] }} }}
change:
  rules:
    {rules}
"""
EVENTS = '/v1/events'
AGAIN = 'backoff: 20ms, backoff_factor: 1'


def rules(*each):
    return RULES.format(rules='\n    '.join(each))


def runs(runner, more=''):
    return (f'jobs: {{ match: {{ stream: "mediawiki.job.*" }}, effect: job, '
            f'targets: ["{runner.url}"]{more} }}')


def send(server, body, target=EVENTS):
    """As MultiHttpClient posts it: libcurl asks before it sends more than a megabyte."""
    body = body.encode() if isinstance(body, str) else body
    asks = len(body) > 1 << 20
    fields = [('Host', f'{server.host}:{server.port}'), ('Accept', '*/*'),
              ('content-type', 'application/json'), ('x-client-ip', '192.0.2.1'),
              ('User-Agent', 'wikimedia/multi-http-client v1.1'), ('Content-Length', len(body)),
              *([('Expect', '100-continue')] if asks else []), ('Connection', 'close')]
    head = f'POST {target} HTTP/1.1\r\n' + ''.join(f'{n}: {v}\r\n' for n, v in fields) + '\r\n'
    with socket.create_connection((server.host, server.port), 60) as peer:
        peer.sendall(head.encode() + (b'' if asks else body))
        answer = peer.makefile('rb')
        status = answer.readline()
        if asks and b' 100 ' in status:
            eq(answer.readline(), b'\r\n')
            peer.sendall(body)
            status = answer.readline()
        lines = iter(lambda: answer.readline().decode().rstrip().lower(), '')
        got = dict(line.split(': ', 1) for line in lines)
        return int(status.split()[1]), got, answer.read()


def slices(events):
    return [php_json(event).encode() for event in events]


@scene
def each_event_goes_through_as_it_came(binary):
    """Alone in an array, as an edit sends them, and all in one; by a stream, and by rules that name
    what they find in it."""
    titled = ('titled: {{ match: {{ title: {{ present: true }}, domain: localhost }}, '
              'effect: http, url: "{0}/t/{{stream}}/{{title}}/{{rev}}", concurrency: 8 }}')
    named = ('named: {{ match: {{ stream: [resource_change, resource-purge] }}, effect: http, '
             'url: "{0}/u/{{stream}}?of={{meta.uri}}", concurrency: 8 }}')
    kinds = ('kinds: {{ match: {{ stream: mediawiki.page_change.v1 }}, effect: http, '
             'url: "{0}/k/{{kind}}/{{title}}" }}')
    with Sink() as sink:
        text = rules(*(one.format(sink.url) for one in (titled, named, kinds)))
        with Reloaded(binary, text) as r, Client(r.server) as client:
            each_arrives(r.server, sink, client)


def each_arrives(server, sink, client):
    wanted, all_bytes = [], []
    for generation in GENERATIONS:
        for title in ('A', 'Talk:\u00dcn\u00ef_&?+/\u4e2d"\\'):
            events = all_events(title, generation)
            for one in events:
                eq(send(server, php_json([one]))[0], 201, one['meta']['stream'])
            again = all_events(title, generation)
            eq(send(server, php_json(again))[0], 201)
            quoted = urllib.parse.quote(title, safe='')
            for event in [*events, *again]:
                text, stream = php_json(event).encode(), event['meta']['stream']
                client.next()
                eq(client.text.encode(), text, 'in the stream')
                if stream.startswith('resource'):
                    uri = urllib.parse.quote(event['meta']['uri'], safe='')
                    wanted.append(f'/u/{stream}?of={uri}')
                else:
                    wanted.append(f'/t/{stream}/{quoted}/71')
                if 'page_change_kind' in event:
                    wanted.append(f'/k/{event["page_change_kind"]}/{quoted}')
                    all_bytes.append(text)
                all_bytes.append(text)
    sink.wait(len(wanted))
    eq(sorted(sink.paths()), sorted(wanted))
    eq(sorted(q['body'] for q in sink.requests), sorted(all_bytes))
    eq({q['headers']['Content-Type'] for q in sink.requests}, {'application/json'})
    count = sum(4 * len(all_events('A', generation)) for generation in GENERATIONS)
    eq(figure(server, 'change_events_total{named="title"}'), count, 'each is looked at')


def one_of_each():
    """Jobs as the extension makes them; none stands for another."""
    return [
        job('plain'),
        job('refreshLinks', {'table': 'templatelinks', 'recursive': True}, sha1='a' * 40),
        job('htmlCacheUpdate', {'pages': {'3': [0, 'A']}}, sha1='b' * 40, root=('c' * 40, DT)),
        job('cdnPurge', {'urls': ['http://wiki.test/wiki/A?x=1&y']},
            delay_until='2026-03-01T01:00:00Z'),
        job('cirrusSearchLinksUpdate', delay_until='2026-02-01T00:00:00Z', sha1='d' * 40),
        *(job('odd', {**ODD, 'n': n}) for n in range(8)),
        job('empty', {'of': []}),
        job('long', {'text': '\u00fc/' * 200_000})
    ]


@scene
def jobs_come_back_with_a_signature_that_holds(binary):
    """Alone and in one array; after a kill and a restart, too; a delayed one when it is due."""
    jobs = [*one_of_each(), *one_of_each()]
    with Runner() as runner, \
            Reloaded(binary, rules(runs(runner, f', concurrency: 4, collapse: sha1, {AGAIN}')),
                     test_hooks='2026-03-01T00:00:00Z') as r:
        half = len(jobs) // 2
        runner.keeps(jobs)
        for one in jobs[:half]:
            eq(send(r.server, php_json([one]))[0], 201, one['type'])
        late = [one['meta']['id'] for one in jobs if one['type'] == 'cdnPurge']
        rule_comes_to(r.server, 'jobs', done=half - 1, scheduled=1)
        eq(r.server.json('POST', '/v1/admin.change.pause', body={'rule': 'jobs'}).status, 200)
        # The clock stands still: without this, what ran would stand for what has its sha1.
        r.server.clock(advance='1m')
        eq(send(r.server, php_json(jobs[half:]))[0], 201)
        rule_comes_to(r.server, 'jobs', ready=half - 1, scheduled=2)
        r.server.kill9()
        r.server.start()
        r.server.restart()
        eq(r.server.json('POST', '/v1/admin.change.resume', body={'rule': 'jobs'}).status, 200)
        runner.wait(len(jobs) - 2)
        eq(set(late) & set(runner.ran), set())
        r.server.clock(advance='2h')
        runner.wait(len(jobs))
        eq(sorted(runner.ran), sorted(one['meta']['id'] for one in jobs))
        eq((runner.ran[-2:], runner.refused), (late if runner.ran[-2:] == late else late[::-1], []))


def items_of(server, **chosen):
    answer = server.json('POST', '/v1/admin.change.items', body={'rule': 'jobs', **chosen})
    return answer.body['items']


def changed(event):
    """The same job, as a server would write it that does not keep bytes."""
    turned = dict(reversed(event.items()))
    text = php_json(event)
    return {
        'sorted': json.dumps(event, sort_keys=True, separators=(',', ':')),
        'turned': php_json(turned),
        'a member more': php_json({**event, 'dt': DT}),
        'a member less': php_json({k: v for k, v in event.items() if k != 'meta'}),
        'a number less exact': text.replace('9223372036854775807', '9223372036854775808'),
        'one sign of a text': text.replace('Vi\u1ec7t', 'Viet'),
        'null left out': text.replace('"none":null,', ''),
        'a list that is not empty': text.replace('"list":[]', '"list":[0]'),
    }


@scene
def the_runner_would_refuse_what_another_had_written(binary):
    """The scenes here lean on that. Such a change costs the signature, or is found by the bytes."""
    event = job('odd', ODD, sha1='a' * 40)
    with Runner() as runner, \
            Reloaded(binary, rules(runs(runner, ', collapse: sha1, retries: 0'))) as r:
        runner.keeps([event])
        for what, text in changed(event).items():
            check(text != php_json(event), what)
            other = json.loads(text)
            check(signature_of(other) != other['mediawiki_signature'], what)
        for what, text in (('spaces', json.dumps(event, ensure_ascii=False)),
                           ('escapes', json.dumps(event, separators=(',', ':')))):
            eq((signature_of(json.loads(text)), text == php_json(event)),
               (event['mediawiki_signature'], False), what)
        # One that is forged dies at its first try, with the wiki's words, and holds up nothing.
        forged = {**job('odd', ODD, sha1='b' * 40), 'database': 'another'}
        torn = {name: value for name, value in job('odd', ODD).items() if name != 'type'}
        eq(send(r.server, php_json([forged, torn, event]))[0], 201)
        one = rule_comes_to(r.server, 'jobs', dead=2, done=1)
        check('HTTP 40' in one['last_error'], one)
        eq((sorted(status for _, status, _ in runner.refused), len(runner.ran)), ([400, 403], 1))
        items = items_of(r.server, state='dead')
        eq(sorted(item['error'][:8] for item in items), ['HTTP 400', 'HTTP 403'])


@scene
def a_wiki_that_does_not_run_jobs_now_costs_none_and_no_attempt(binary):
    """The extension answers 423; Wikimedia's entry point 500 with X-Readonly; 501 until enabled."""
    for state in ((423, {}), (500, {'X-Readonly': 'true'}), 'not enabled'):
        with Runner(enabled=state != 'not enabled') as runner, \
                Reloaded(binary, rules(runs(runner, ', retries: 0'))) as r:
            runner.read_only = None if state == 'not enabled' else state
            jobs = [job('plain', {'n': n}) for n in range(12)]
            runner.keeps(jobs)
            eq(send(r.server, php_json(jobs))[0], 201)
            wait_until(lambda runner=runner: len(runner.refused) >= 2, 'it was asked again')
            one = rule_of(r.server, 'jobs')
            eq((one['ready'], one['dead'], one['failures'], one['done']), (12, 0, 0, 0), state)
            eq({item['attempts'] for item in items_of(r.server)}, {0}, state)
            target, = r.server.json('GET', '/v1/admin.change').body['targets']
            says = 'read-only' if runner.read_only else 'does not run jobs'
            check(says in target['last_error'], target)
            runner.enabled, runner.read_only = True, None
            runner.wait(12)
            eq(rule_comes_to(r.server, 'jobs', done=12, ready=0)['failures'], 0)
            check(len(runner.refused) < 4 + 8, f'{len(runner.refused)} times asked in vain')


@scene
def a_large_batch_comes_in_parts_beside_each_other(binary):
    """At most 4 MiB each, all at once, each after 100 Continue."""
    rng = random.Random(1)
    jobs = [job('long', {'text': '\u00fc"/' * rng.randrange(1, 40_000)}) for _ in range(90)]
    bodies = [body.encode() for body in batches(jobs)]
    check(len(bodies) >= 2 and max(map(len, bodies)) <= BATCH_BYTES_MAX, list(map(len, bodies)))
    with Runner() as runner, \
            Reloaded(binary, rules(runs(runner, f', concurrency: 16, {AGAIN}'))) as r:
        runner.keeps(jobs)
        with concurrent.futures.ThreadPoolExecutor(len(bodies)) as pool:
            got = list(pool.map(lambda body: send(r.server, body)[0], bodies))
        eq(got, [201] * len(bodies))
        runner.wait(len(jobs))
        eq((sorted(runner.ran), runner.refused), (sorted(one['meta']['id'] for one in jobs), []))


def failed(answer):
    """What the extension counts of an answer: {kind: [event, ..]}, of an object of lists."""
    kinds = json.loads(answer[2]).items()
    return {kind: [one['event'] for one in each] for kind, each in kinds if each}


@scene
def it_is_answered_as_by_eventgate(binary):
    good = [page_event('revision-create', 'A', '1.43'), resource_change('B')]
    bad = [{'$schema': '/x/1.0.0', 'meta': {'id': 'x', 'dt': DT}, 'z': 1.50, 'a': PERFORMER},
           job('nobodyRunsThis'),
           {**page_event('page-delete', 'A', '1.39'), 'meta': {'stream': 'palimpsest.gone'}}]
    with Reloaded(binary, rules('known: { match: { stream: none }, effect: drop }')) as r:
        def answer(events, target=EVENTS):
            return send(r.server, php_json(events), target)
        status, fields, body = answer(good)
        eq((status, fields['content-length'], body), (201, '0', b''))
        eq(answer(good)[0], 201, 'once more')
        eq(figure(r.server, 'change_events_repeated_total'), 2)
        eq(answer(good[0])[0], 201, 'an object alone')
        for events in (good, [*bad, *good], bad):
            status, _, body = answer(events, EVENTS + '?hasty=true')
            eq((status, body), (202, b''))
        status, fields, body = got = answer([bad[0], good[0], bad[1], good[1], bad[2]])
        eq((status, fields['content-type'], failed(got)),
           (207, 'application/json; charset=utf-8', {'invalid': bad}))
        eq(list(json.loads(body)), ['invalid', 'error'])
        for text in slices(bad):
            check(text in body, 'told as it came')
        says = [one['error'] for one in json.loads(body)['invalid']]
        check('meta.stream' in says[0] and 'no rule of effect job' in says[1] and 'own' in says[2],
              says)
        got = answer(bad)
        eq((got[0], failed(got)), (400, {'invalid': bad}))
        got = answer(bad[0])
        eq((got[0], failed(got)), (400, {'invalid': bad[:1]}))
        for nothing in (b'', b'[]', b'{"meta":', b'[\xff]'):
            for target in (EVENTS, EVENTS + '?hasty=true'):
                eq(send(r.server, nothing, target)[0], 400, nothing)
        eq(send(r.server, b'[' + b' ' * (10 << 20) + b']')[0], 413)
        eq(answer([{}] * 50_001)[0], 413)
        eq(figure(r.server, 'event_log_events'), 2, 'nothing but the good ones was kept')


if __name__ == '__main__':
    main()
