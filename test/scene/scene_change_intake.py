"""Goal: jobs are taken when a rule runs them, byte for byte as they came, and name no page to look at; and nobody can tell
what only the store itself tells.
Method: a server with rules in front of a scripted wiki whose pages change; events over the wire, and a client that follows
the streams."""
from change_help import Client, figure, rule_comes_to, rules_file, told_server
from harness import Server, check, eq, free_port, main, scene
from origin import Origin, instant
from page_help import get

EVENTS = '/v1/events'
JSON = {'Content-Type': 'application/json'}


def job_rule(domain='localhost'):
    """Nobody listens at its target: its jobs wait."""
    return {'match': {'stream': 'mediawiki.job.*', 'domain': domain}, 'effect': 'job',
            'targets': [f'http://127.0.0.1:{free_port()}/w/rest.php/eventbus/v0/internal/job/execute']}


def job(number, **more):
    """As EventBus sends it; its members have an order of their own, by which it is signed."""
    return {'database': 'wikidb', 'type': 'refreshLinks', 'meta': {'stream': 'mediawiki.job.refreshLinks', 'id': f'job-{number}'},
            'page_title': 'A', 'params': {'z': 1, 'a': [True, None]}, 'mediawiki_signature': 'f' * 40, **more}


def error_of(answer, status=400):
    eq(answer.status, status, answer.body)
    return [item['error'] for item in answer.body['invalid']]


@scene
def a_job_is_taken_when_a_rule_runs_it(binary):
    with Origin() as origin, rules_file({'jobs': job_rule()}) as file, \
            told_server(binary, origin, '--config', file, '--set', 'change.databases=wikidb=localhost') as server, \
            Client(server, '/v1/stream?stream=mediawiki.job.*') as client:
        text = b'{"type":"refreshLinks", "mediawiki_signature":"f",\t"database" : "wikidb","b":1.50,"a":"\\u00e9\xc3\xa9",' \
               b'"meta":{"stream":"mediawiki.job.refreshLinks","id":"1"}}'
        eq(server.request('POST', EVENTS, JSON, text).status, 201)
        client.next()
        eq(client.text.encode(), text, 'as it came')
        eq(server.request('POST', EVENTS, JSON, text).status, 201)      # once more
        eq(figure(server, 'change_events_repeated_total'), 1)
        eq(server.json('POST', EVENTS, JSON, [job(2), job(3)]).status, 201)
        eq([data['meta']['id'] for _, _, data in client.take(2)], ['job-2', 'job-3'])
        eq(figure(server, 'change_events_total{named="job"}'), 4)


@scene
def a_job_that_says_unreadably_when_it_is_due_is_refused(binary):
    with rules_file({'jobs': job_rule()}) as file, \
            Server(binary, '--config', file, '--set', 'change.databases=wikidb=localhost') as server:
        wanted = 'delay_until is no instant: ISO 8601 with a zone, or seconds since 1970, is wanted'
        for until in (1772326800000, '20260301010000', 'tomorrow', '', True, {}):
            eq(error_of(server.json('POST', EVENTS, JSON, {**job(1), 'delay_until': until})), [wanted])
        far = [{**job(n), 'delay_until': until} for n, until in enumerate((4102444800, 4102444800.5, '4102444800', '2100-01-01T00:00:00Z'))]
        eq(server.json('POST', EVENTS, JSON, [*far, {**job(9), 'delay_until': None}]).status, 201)
        rule_comes_to(server, 'jobs', scheduled=len(far))


@scene
def no_page_that_a_job_names_is_looked_at(binary):
    with Origin() as origin, rules_file({'jobs': job_rule()}) as file, \
            told_server(binary, origin, '--config', file, '--set', 'change.databases=wikidb=localhost') as server:
        origin.page('A', (7, 'before'))
        for _ in range(2):
            last = get(server, 'A').body
        origin.page('A', (8, 'after'))
        origin.touched['A'] = instant()
        asked = origin.count('words')
        for more in ({}, {'meta': {'stream': 'mediawiki.job.htmlCacheUpdate', 'domain': 'localhost', 'uri': 'http://wiki.test/wiki/A'}}):
            eq(server.json('POST', EVENTS, JSON, job(1, **more)).status, 201)
            eq(get(server, 'A').body, last, 'trusted as before')
        eq(origin.count('words'), asked)
        eq(figure(server, 'change_events_total{named="title"}'), 0)


@scene
def a_job_that_no_rule_runs_is_refused(binary):
    with Server(binary) as server:
        wanted = 'no rule of effect job wants this job: it would not be run'
        eq(error_of(server.json('POST', EVENTS, JSON, job(1))), [wanted])
        good = {'meta': {'stream': 'a', 'domain': 'localhost'}}
        eq(error_of(server.json('POST', EVENTS, JSON, [good, job(1)]), 207), [wanted])
    drop = {'match': {'stream': 'mediawiki.job.*'}, 'effect': 'drop'}
    with rules_file({'known': drop}) as file, Server(binary, '--config', file) as server:
        eq(error_of(server.json('POST', EVENTS, JSON, job(1))), [wanted])


@scene
def what_the_store_tells_nobody_else_can_tell(binary):
    with Server(binary, '--set', 'change.streams=palimpsest.*') as server, Client(server) as client:
        forged = [{'meta': {'stream': f'palimpsest.{name}', 'domain': 'localhost'}, 'page_title': 'A', 'rev_id': 1}
                  for name in ('render', 'gone', 'dated', 'purge', 'what.comes.later', '')]
        own = "streams whose names begin with palimpsest. are the server's own"
        eq(error_of(server.json('POST', EVENTS, JSON, forged)), [own] * len(forged))
        for one in forged:
            eq(error_of(server.json('POST', EVENTS, JSON, one)), [own])
        mixed = [forged[0], {'meta': {'stream': 'palimpsest'}}, {'meta': {'stream': 'a.palimpsest.render'}}]
        eq(error_of(server.json('POST', EVENTS, JSON, mixed), 207), [own])
        eq(server.json('POST', EVENTS + '?hasty', JSON, forged).status, 202)
        eq([data['meta']['stream'] for _, _, data in client.take(2)], ['palimpsest', 'a.palimpsest.render'])
        check(figure(server, 'event_log_events') == 2, 'nothing else was kept')


main()
