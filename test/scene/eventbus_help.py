"""What MediaWiki's extension EventBus sends, and how it takes its jobs back, in our own words.

After its branches REL1_39 and REL1_43, and what real wikis sent (test/e2e/scene_eventbus.py,
scene_jobs.py): the members of each event in their order, JSON as PHP writes it, the signature of a
job, and a runner that is as strict about the signature as the extension, and stricter: the runner
wants the very bytes."""
import hashlib
import hmac
import http.server
import json
import re
import threading
import urllib.parse
import uuid

from harness import wait_until

SECRET = b'the secret of the wiki'
RUNNER = '/w/rest.php/eventbus/v0/internal/job/execute'
BATCH_BYTES_MAX = 4 << 20       # $wgEventBusMaxBatchByteSize
GENERATIONS = ('1.39', '1.43')
DT = '2026-11-27T10:00:00Z'


# ---- JSON as PHP writes it

def php_text(text):
    """With slashes and letters as they are, but for U+2028 and U+2029."""
    plain = json.dumps(text, ensure_ascii=False)
    return plain.replace('\u2028', '\\u2028').replace('\u2029', '\\u2029')


def php_json(value):
    """An array with the keys 0, 1, .. is a list for PHP, and so is an empty object."""
    if isinstance(value, dict):
        if list(value) == [str(n) for n in range(len(value))]:
            return php_json(list(value.values()))
        return '{' + ','.join(f'{php_text(k)}:{php_json(v)}' for k, v in value.items()) + '}'
    if isinstance(value, list):
        return '[' + ','.join(map(php_json, value)) + ']'
    if isinstance(value, float) and value == int(value):
        value = int(value)
    return php_text(value) if isinstance(value, str) else json.dumps(value)


def signature_of(event):
    """Of all its members but the signature itself."""
    rest = {name: value for name, value in event.items() if name != 'mediawiki_signature'}
    return hmac.new(SECRET, php_json(rest).encode(), hashlib.sha1).hexdigest()


# ---- events of pages

def meta(stream, uri, stream_first=False, domain='wiki.test'):
    order = ('stream uri id request_id domain dt' if stream_first else
             'uri request_id id dt domain stream').split()
    values = {
        'stream': stream, 'uri': uri, 'id': str(uuid.uuid4()), 'request_id': uuid.uuid4().hex[:24],
        'domain': domain, 'dt': DT
    }
    return {name: values[name] for name in order}


def article(title):
    return 'http://wiki.test/wiki/' + urllib.parse.quote(title, safe=':/~!$()*,;@')


PERFORMER = {
    'user_text': 'Admin \u00dc', 'user_groups': ['sysop', '*', 'user'], 'user_is_bot': False,
    'user_id': 1, 'user_registration_dt': DT, 'user_edit_count': 18
}
USER = {
    'user_text': 'Admin \u00dc', 'groups': ['sysop', '*', 'user'], 'is_bot': False,
    'is_system': False, 'is_temp': False, 'user_id': 1, 'registration_dt': DT, 'edit_count': 18
}
SLOT = {
    'rev_slot_content_model': 'wikitext', 'rev_slot_sha1': 'ljc9bu9kti3p10kmnt72dx4ty2nj29c',
    'rev_slot_size': 44, 'rev_slot_origin_rev_id': 71
}
PLAIN = {
    'database': 'wikidb', 'page_id': 3, 'page_namespace': 0, 'page_is_redirect': False, 'dt': DT,
    'comment': 'said "why" \\ </script> \u2028', 'parsedcomment': 'said &quot;why&quot;'
}
OF_REVISION = {
    'rev_id': 71, 'rev_parent_id': 70, 'rev_timestamp': DT, 'rev_minor_edit': False, 'rev_len': 44,
    'rev_sha1': 'ljc9bu9kti3p10kmnt72dx4ty2nj29c', 'rev_content_model': 'wikitext',
    'rev_content_format': 'text/x-wiki', 'rev_content_changed': True, 'rev_count': 2
}
VALUES = {
    **PLAIN,
    **OF_REVISION,
    'performer': PERFORMER,
    'rev_slots': {'main': SLOT},
    'tags': ['mw-undo'],
    'added_properties': {'defaultsort': 'q', 'odd': 'data:application/octet-stream;base64,/w=='},
    'removed_properties': {'noindex': ''},
    'added_links': [{'link': '/wiki/%C3%9C', 'external': False}],
    'removed_links': [{'link': 'https://x.test/%20', 'external': True}],
    'reason': 'x',
    'page_restrictions': {'edit': 'sysop', 'move': ''},
    'visibility': {'text': False, 'user': True, 'comment': True},
}

REVISION = ('database page_id page_title page_namespace rev_id rev_timestamp rev_sha1 '
            'rev_minor_edit rev_len rev_content_model rev_content_format performer '
            'page_is_redirect comment {parsed}')
PAGE = 'database page_id page_title page_namespace page_is_redirect rev_id performer'
BY = 'database performer page_id page_title page_namespace page_is_redirect'
DELETED = {
    '1.39': BY + ' rev_id rev_count comment {parsed}',
    '1.43': ('database page_id page_title page_namespace page_is_redirect performer rev_id '
             'rev_count comment')
}
# stream: its members behind $schema and meta; what differs between generations, by them
ORDERS = {
    'page-create': {'1.39': REVISION + ' rev_slots', '1.43': REVISION + ' dt rev_slots'},
    'revision-create': {'1.39': REVISION + ' rev_parent_id rev_slots rev_content_changed',
                        '1.43': REVISION + ' rev_parent_id dt rev_slots rev_content_changed'},
    'revision-tags-change': REVISION + ' rev_parent_id tags prior_state',
    'revision-visibility-change': REVISION + ' rev_parent_id visibility prior_state',
    'page-delete': DELETED,
    'page-suppress': DELETED,
    'page-undelete': BY + ' rev_id prior_state comment {parsed}',
    'page-move': BY + ' rev_id prior_state new_redirect_page comment {parsed}',
    'page-properties-change': PAGE + ' added_properties removed_properties',
    'page-links-change': PAGE + ' added_links removed_links',
    'page-restrictions-change': BY + ' reason page_restrictions rev_id',
}
SCHEMAS = {'revision-create': {'1.39': 'revision/create/1.1.0', '1.43': 'revision/create/2.0.0'},
           'page-create': {'1.39': 'revision/create/1.1.0', '1.43': 'revision/create/2.0.0'},
           'page-suppress': 'page/delete/1.0.0'}
PRIOR = {
    'revision-tags-change': {'tags': []}, 'page-undelete': {'page_id': 2},
    'revision-visibility-change': {'visibility': {'text': True, 'user': True, 'comment': True}}
}


def of(generation, table, name, without):
    row = table.get(name, without)
    return row[generation] if isinstance(row, dict) else row


def page_event(name, title, generation, **members):
    """Of the stream mediawiki.NAME."""
    parsed = 'parsedcomment' if generation == '1.39' else ''
    moved = {'page_title': 'Before_' + title, 'page_namespace': 0}
    values = {
        **VALUES, 'page_title': title, 'prior_state': PRIOR.get(name, {**moved, 'rev_id': 70}),
        'new_redirect_page': {'page_id': 9, **moved, 'rev_id': 72}, **members
    }
    order = of(generation, ORDERS, name, None).format(parsed=parsed).split()
    schema = of(generation, SCHEMAS, name, name.replace('-', '/', 1) + '/1.0.0')
    return {'$schema': '/mediawiki/' + schema, 'meta': meta(f'mediawiki.{name}', article(title)),
            **{member: values[member] for member in order}}


def page_change(kind, title, generation='1.43', **members):
    """What the branches since 1.41 send beside them: what is said of all events comes last."""
    seen = {
        'is_content_visible': kind != 'visibility_change', 'is_editor_visible': True,
        'is_comment_visible': True
    }
    slot = {
        'slot_role': 'main', 'content_model': 'wikitext', 'content_sha1': VALUES['rev_sha1'],
        'content_size': 44, 'content_format': 'text/x-wiki', 'origin_rev_id': 71
    }
    revision = {
        'rev_id': 71, 'rev_dt': DT, 'is_minor_edit': False, 'rev_sha1': VALUES['rev_sha1'],
        'rev_size': 44, 'rev_parent_id': 70, 'comment': '', 'editor': USER,
        **seen, 'content_slots': {'main': slot}
    }
    log = {'create': 'insert', 'undelete': 'insert', 'delete': 'delete'}.get(kind, 'update')
    prior = {'page': {'page_title': 'Before_' + title, 'namespace_id': 0}} if kind == 'move' else {}
    prior['revision'] = {'is_content_visible': True} if kind == 'visibility_change' else revision
    return {
        'changelog_kind': log, 'page_change_kind': kind, 'dt': DT, 'wiki_id': 'wikidb',
        'page': {'page_id': 3, 'page_title': title, 'namespace_id': 0, 'is_redirect': False},
        'performer': USER, 'comment': VALUES['comment'], 'revision': revision, 'prior_state': prior,
        **members, '$schema': '/mediawiki/page/change/1.2.0',
        'meta': meta('mediawiki.page_change.v1', article(title), stream_first=True)
    }


def resource_change(title, stream='resource_change', tags=('depends_on:template',)):
    """Of what a template's edit made stale; resource-purge: of a URL that caches are to forget."""
    return {
        '$schema': '/resource_change/1.0.0', 'meta': meta(stream, article(title)),
        'tags': list(tags)
    }


CHANGE_KINDS = ('create', 'edit', 'delete', 'undelete', 'move', 'visibility_change')


def all_events(title, generation):
    """One of each kind about one title."""
    return [*(page_event(name, title, generation) for name in ORDERS),
            *(page_change(kind, title) for kind in CHANGE_KINDS if generation != '1.39'),
            resource_change(title), resource_change(title, 'resource-purge', ['mediawiki'])]


# ---- jobs

# What PHP writes in a way of its own, and what a careless server loses.
ODD = {
    'text': 'Vi\u1ec7t \U0001f30d "quoted" \\ / </script> & \u2028 \x7f \x01 \t', 'float': 1.5,
    'tenth': 0.1, 'large': 2**63 - 1, 'none': None, 'no': False, 'list': [],
    'of': [[], {'b': 1, 'a': ['x']}], 'z': 1, 'a': 2, '7': 'key', '': 'empty key',
    'bytes': 'data:application/octet-stream;base64,/w=='
}


def job(kind, params=None, sha1=None, root=None, delay_until=None, **more):
    """root: (signature, instant)"""
    params = {'namespace': 0, 'title': 'A', **(params or {}), 'requestId': uuid.uuid4().hex[:24]}
    if root:
        params.update(rootJobSignature=root[0], rootJobTimestamp=re.sub('[^0-9]', '', root[1]))
    event = {
        '$schema': '/mediawiki/job/1.0.0',
        'meta': meta(f'mediawiki.job.{kind}', 'https://placeholder.invalid/wiki/Special:Badtitle'),
        'database': 'wikidb', 'type': kind, **({'delay_until': delay_until} if delay_until else {}),
        **({'sha1': sha1} if sha1 else {}),
        **({'root_event': {'signature': root[0], 'dt': root[1]}} if root else {}), 'params': params,
        **more
    }
    event['meta']['request_id'] = params['requestId']
    return {**event, 'mediawiki_signature': signature_of(event)}


def batches(events):
    """The bodies that the extension posts, each an array: several when one would be too large."""
    body = php_json(events)
    if len(body.encode()) <= BATCH_BYTES_MAX or len(events) == 1:
        return [body]
    size = max(1, len(events) // -(-len(body.encode()) // BATCH_BYTES_MAX))
    return [text for n in range(0, len(events), size) for text in batches(events[n:n + size])]


class Runner:
    """A wiki that runs jobs, as RunSingleJobHandler and EventBodyValidator do.

    sent: the bytes of each job, by its id. says: called with a job that holds, gives (status,
    headers) or None. ran: ids of those that ran well. refused: (id, status, why)."""

    def __init__(self, says=None, enabled=True):
        self.says, self.enabled, self.read_only = says or (lambda event: None), enabled, None
        self.sent, self.ran, self.refused, self.lock = {}, [], [], threading.Lock()
        runner = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = 'HTTP/1.1'
            disable_nagle_algorithm = True     # or each answer's second part waits for 40 ms

            def do_POST(self):
                body = self.rfile.read(int(self.headers['Content-Length']))
                status, headers, answer = runner.take(self.path, self.headers, body)
                text = php_json(answer).encode()
                self.send_response(status)
                for name, value in {
                        **headers, 'Content-Type': 'application/json',
                        'Content-Length': str(len(text))
                }.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(text)

            def log_message(self, *args):  # pylint: disable=arguments-differ
                pass

        class Listener(http.server.ThreadingHTTPServer):
            daemon_threads = True
            request_queue_size = 256

            def handle_error(self, request, client_address):
                """A server that was killed is no fault of the runner."""

        self.server = Listener(('127.0.0.1', 0), Handler)
        self.url = f'http://127.0.0.1:{self.server.server_address[1]}{RUNNER}'
        threading.Thread(target=self.server.serve_forever,
                         kwargs={'poll_interval': 0.05},
                         daemon=True).start()

    def __enter__(self):
        return self

    def __exit__(self, kind, value, trace):
        self.server.shutdown()
        self.server.server_close()

    def keeps(self, events):
        """They are about to be sent."""
        self.sent.update({event['meta']['id']: php_json(event).encode() for event in events})

    def take(self, path, headers, body):
        """(status, headers, answer)"""
        event, name = None, None
        try:
            event = json.loads(body)
            name = event['meta']['id']
        except (ValueError, KeyError, TypeError):
            pass
        status, more, why = self.judge(path, headers, body, event)
        with self.lock:
            if status == 200:
                self.ran.append(name)
            else:
                self.refused.append((name, status, why))
        return status, more, ({'status': True}
                              if status == 200 else {'message': why, 'httpCode': status})

    def judge(self, path, headers, body, event):
        if path != RUNNER:
            return 404, {}, 'no such path'
        if not self.enabled:
            return 501, {}, 'Set $wgEventBusEnableRunJobAPI to true'
        if self.read_only:
            return (*self.read_only, 'Wiki is in read-only mode.')
        if headers['Content-Type'] != 'application/json':
            return 415, {}, 'Unsupported Content-Type'
        if not isinstance(event, dict) or not {'database', 'type', 'params'} <= set(event):
            return 400, {}, 'Invalid event received'
        if 'mediawiki_signature' not in event:
            return 403, {}, 'Missing mediawiki signature'
        if not hmac.compare_digest(signature_of(event), str(event['mediawiki_signature'])):
            return 403, {}, 'Invalid mediawiki signature'
        if body != self.sent.get(event['meta']['id']):
            return 500, {}, 'these are not the bytes that were sent'
        said = self.says(event)
        return (*said, 'Internal Server Error') if said else (200, {}, '')

    def wait(self, count):
        wait_until(lambda: len(self.ran) >= count,
                   f'{count} jobs ran; refused: {self.refused[:3]}',
                   timeout=40)
        return self.ran
