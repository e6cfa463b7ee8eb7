"""What the scenes of rules under faults share: configurations, events, and figures of rules."""
import json

from harness import SceneError, eq, wait_until


def soon(more):
    """A backoff of no time to speak of, where there are retries."""
    return {} if more.get('retries') == 0 else {'backoff': '20ms', 'backoff_factor': 1}


def configured(rules, domains=('localhost', 'a.test', 'b.test'), **change):
    """A configuration with these rules, as a text: JSON is YAML."""
    return json.dumps({'domains': {name: {} for name in domains},
                       'change': {'rules': rules, **change}})


def hook(sink, path='/{title}', stream='t', **more):
    """A rule that posts each event of a stream to a sink, or to a URL."""
    url = sink if isinstance(sink, str) else sink.url
    return {'match': {'stream': stream}, 'effect': 'http', 'url': url + path, **soon(more), **more}


def event(title, n=0, stream='t', domain='localhost', **more):
    return {'meta': {'stream': stream, 'domain': domain, 'id': f'{stream}-{domain}-{title}-{n}'},
            'page_title': title, 'n': n, **more}


def steer(server, verb, rule, **more):
    eq(server.json('POST', f'/v1/admin.change.{verb}', body={'rule': rule, **more}).status, 200,
       verb)


def items_of(server, rule, **chosen):
    answer = server.json('POST', '/v1/admin.change.items',
                         body={'rule': rule, 'limit': 1000, **chosen})
    eq(answer.status, 200, answer.body)
    return answer.body['items']


def _unrun(server, stream, ids):
    """What a server says of events that were not run: of each, of the router and its rules, in figures."""
    def told(one):
        return server.json('POST', '/v1/admin.change.explain', body={'id': one, 'stream': stream}).body
    figures = [line for line in server.request('GET', '/metrics').body.decode().splitlines()
               if line.startswith(('palimpsest_change_', 'palimpsest_event')) and not line.endswith(' 0')]
    return '\n'.join([f'{len(ids)} were not run:', *(f'{one}: {told(one)}' for one in sorted(ids)[:20]),
                      json.dumps(server.json('GET', '/v1/admin.change').body), *figures])


def wait_run(server, sink, stream, ids, timeout=60):
    """Each of these events, by its meta.id, comes to the sink; or the scene fails with what is known of those that do not."""
    missing = set(ids)

    def came():
        missing.difference_update(one['meta']['id'] for one in sink.events())
        return not missing
    try:
        wait_until(came, 'each is run', timeout=timeout, pause=0.5)
    except SceneError as error:
        raise SceneError(f'{error}: {_unrun(server, stream, missing)}') from error
