"""What the scenes of rules under faults share: configurations, events, and figures of rules."""
import json

from harness import eq



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
