"""Keyspaces as a RESTBase leaves them: those of fixtures/restbase.cql, and rows made by a scene."""
import json
import pathlib
import uuid

import rig  # it says where cql is  # pylint: disable=unused-import
from cql import CqlError

FIXTURE = pathlib.Path(__file__).resolve().parent / 'fixtures' / 'restbase.cql'
DOMAIN = 'en.example.org'
GROUP = 'local_group_test_T_'
HTML = GROUP + 'parsoid__ng_html'
DATA = GROUP + 'parsoid__ng_data2pfX88WDfxDff'
# A group of keyspaces that scenes make themselves.
OWN = 'org_example_T_'


def drop_all(session):
    for row in list(session.execute('SELECT keyspace_name FROM system_schema.keyspaces')):
        if '_T_' in row['keyspace_name']:
            session.execute(f'DROP KEYSPACE "{row["keyspace_name"]}"')


def statements(only=''):
    """Of the fixture; only: of keyspaces whose name begins so."""
    text = FIXTURE.read_text(encoding='utf-8')
    text = ''.join(line for line in text.splitlines(True) if not line.startswith('--'))
    return [each.strip() for each in text.split(';\n') if f'"{only}' in each]


def load(cluster, only=GROUP):
    with cluster.session() as session:
        drop_all(session)
        for statement in statements(only):
            session.execute(statement.replace('{replication}', str(cluster.replication())))


def quoted(text):
    return "'" + text.replace("'", "''") + "'"


def make(session, cluster, name, value='blob', rev='int', tid='timeuuid', static=False):
    """A table as key_rev_value has it, of our own group. Returns the keyspace."""
    space = OWN + name
    cql = {'string': 'text', 'json': 'text', 'long': 'bigint'}
    schema = {'table': name.replace('_', '.'), 'version': 1, '_backend_version': 2,
              'attributes': {'key': 'string', 'rev': rev, 'tid': tid, 'value': value,
                             'headers': 'json'},
              'index': [{'attribute': 'key', 'type': 'hash'},
                        {'attribute': 'rev', 'type': 'range', 'order': 'desc'},
                        {'attribute': 'tid', 'type': 'range', 'order': 'desc'}]}
    session.execute(f'CREATE KEYSPACE "{space}" WITH replication = {cluster.replication()}')
    session.execute(f'CREATE TABLE "{space}".meta (key text PRIMARY KEY, value text)')
    session.execute(
        f'CREATE TABLE "{space}".data ("_domain" text, "key" text, "rev" {cql.get(rev, rev)}, '
        f'"tid" {tid}, "value" {cql.get(value, value)}, "headers" text, '
        + ('"latest_tid" timeuuid static, ' if static else '')
        + 'PRIMARY KEY (("_domain", "key"), "rev", "tid")) '
          'WITH CLUSTERING ORDER BY ("rev" DESC, "tid" DESC)')
    session.execute(f'INSERT INTO "{space}".meta (key, value) '
                    f'VALUES (\'schema\', {quoted(json.dumps(schema))})')
    return space


def tid_of(seconds, low=0):
    ticks = (1550000000 + seconds) * 10000000 + 0x01b21dd213814000
    return str(uuid.UUID(fields=(ticks & 0xffffffff, ticks >> 32 & 0xffff,
                                 ticks >> 48 & 0x0fff | 0x1000, 0x80, 1, low)))


def insert(session, space, title, rev, tid, value, headers='{"content-type":"text/html"}'):
    text = (f'INSERT INTO "{space}".data ("_domain", "key", "rev", "tid", "value", "headers") '
            f'VALUES ({quoted(DOMAIN)}, {quoted(title)}, {rev}, {tid}, {value}, '
            + ('null' if headers is None else quoted(headers)) + ')')
    for _ in range(5):      # a busy machine: the same write again is the same write
        try:
            return session.execute(text)
        except CqlError as error:
            if error.name != 'WRITE_TIMEOUT':
                raise
    raise AssertionError('the node takes no writes')


def blob(text):
    return '0x' + (text if isinstance(text, bytes) else text.encode()).hex()


def rows_of(cluster, space):
    with cluster.session() as session:
        return [row for row in session.execute(
            f'SELECT "_domain", "key", rev, tid, value FROM "{space}".data')
                if row['_domain'] == DOMAIN]
