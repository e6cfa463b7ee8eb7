"""Cassandra 3.11 as a client sees it, made of a newer node by proxy.py: what 3.11 lacks is refused
in its words, and rows of its system tables have its columns and its version.

It goes by the texts of statements and by the tables of rows. Not hidden are operators in CQL, such
as `a + 1`. Not given are what 3.11 had and later versions dropped (COMPACT STORAGE,
read_repair_chance, thrift_version), and how 3.11 works inside.
"""
import re

import wire

RELEASE, CQL_VERSION, VERSIONS = '3.11.19', '3.4.4', ['3/v3', '4/v4', '5/v5-beta']
NEWEST = 4

# Columns that came later, of tables whose rows are changed.
NEW_COLUMNS = {
    ('system', 'local'): ('broadcast_port', 'listen_port', 'rpc_port'),
    ('system', 'peers'): (),
    ('system_schema', 'tables'): ('additional_write_policy', 'allow_auto_snapshot',
                                  'incremental_backups', 'memtable', 'read_repair'),
}
VALUES = {'release_version': RELEASE, 'cql_version': CQL_VERSION,
          'native_protocol_version': str(NEWEST)}

NO_ALTERNATIVE = "no viable alternative at input '{}'"
# What a statement looks like, and what 3.11 says to it: {} is what the pattern's group found. The
# comments say which version brought it.
REFUSED = (
    # 4.0
    (r'\bsystem\s*\.\s*(peers_v2|view_builds_in_progress_v2|transferred_ranges_v2|repairs|'
     r'available_ranges_v2|top_partitions)\b',
     'INVALID', 'unconfigured table {}'),
    (r'\b(system_virtual_schema|system_views|system_metrics)\s*\.',
     'INVALID', 'Keyspace {} does not exist'),
    (r"NetworkTopologyStrategy'.*'(replication_factor)'",
     'CONFIG_ERROR', '{} is an option for SimpleStrategy, not NetworkTopologyStrategy'),
    (r"\bKEYSPACE\b.*:\s*'(\d+/\d+)'",
     'CONFIG_ERROR', 'Replication factor must be numeric; found {}'),
    (r'\b(?:WITH|AND)\s+(additional_write_policy|read_repair)\s*=',
     'SYNTAX_ERROR', "Unknown property '{}'"),
    (r"\bspeculative_retry\s*=\s*'([\d.]+p|(?:min|max)\(.*?\))'",
     'CONFIG_ERROR', "Invalid value {} for option 'speculative_retry'"),
    (r"'(?:[\w.]*\.)?(ZstdCompressor|NoopCompressor)'",
     'CONFIG_ERROR', 'Could not create Compression for type org.apache.cassandra.io.compress.{}'),
    (r'^\s*(DESC(?:RIBE)?)\b', 'SYNTAX_ERROR', NO_ALTERNATIVE),
    (r'\b(ACCESS)\s+(?:TO|FROM)\s+(?:ALL\s+)?(?:DATACENTERS|CIDRS)\b',
     'SYNTAX_ERROR', NO_ALTERNATIVE),
    (r'\b(currentTimestamp|currentDate|currentTime|currentTimeUUID)\s*\(',
     'INVALID', "Unknown function '{}'"),
    # 4.1
    (r'\b(?:WITH|AND)\s+(memtable|allow_auto_snapshot|incremental_backups)\s*=',
     'SYNTAX_ERROR', "Unknown property '{}'"),
    (r'^\s*ALTER\s+(?:KEYSPACE|TABLE|TYPE|ROLE|USER)\s+(IF)\s+EXISTS\b',
     'SYNTAX_ERROR', NO_ALTERNATIVE),
    (r'^\s*ALTER\s+TABLE\b.*\b(?:ADD|DROP|RENAME)\s+(IF)\s+(?:NOT\s+)?EXISTS\b',
     'SYNTAX_ERROR', NO_ALTERNATIVE),
    # 5.0
    (r'\bsystem_schema\s*\.\s*(column_masks)\b', 'INVALID', 'unconfigured table {}'),
    (r"'(?:[\w.]*\.)?(UnifiedCompactionStrategy)'", 'CONFIG_ERROR',
     "Unable to find compaction strategy class 'org.apache.cassandra.db.compaction.{}'"),
    (r"\bUSING\s+'((?:[\w.]*\.)?(?:sai|StorageAttachedIndex))'",
     'CONFIG_ERROR', "Unable to find custom indexer class '{}'"),
    (r'\b(vector)\s*<', 'SYNTAX_ERROR', NO_ALTERNATIVE),
    (r'\b(MASKED)\s+WITH\b', 'SYNTAX_ERROR', NO_ALTERNATIVE),
    (r'\b(max_?writetime|to_date|to_timestamp|to_unix_timestamp|min_timeuuid|max_timeuuid|'
     r'current_timestamp|current_date|current_time|current_timeuuid)\s*\(',
     'INVALID', "Unknown function '{}'"),
)
REFUSED = [(re.compile(look, re.I | re.S), name, words) for look, name, words in REFUSED]


class OldNode:
    """is_blunt: how a request of version 5 is refused. 3.11 knows a beta of that version, and says
    so in an envelope of version 5; the blunt way is an envelope of version 4 with the versions it
    has, as of servers that know no 5."""

    def __init__(self, is_blunt=False):
        self.is_blunt = is_blunt

    def refused_version(self, request):
        """The answer to a request of a version that 3.11 does not speak, behind which it closes;
        None: it does."""
        version = request.version & 0x7f
        if version <= NEWEST:
            return None
        if version == NEWEST + 1 and not self.is_blunt:
            answered = version
            text = f'Beta version of the protocol used ({VERSIONS[-1]}), but USE_BETA flag is unset'
        else:
            answered = NEWEST
            text = (f'Invalid or unsupported protocol version ({version}); '
                    f'supported versions are ({", ".join(VERSIONS)})')
        return wire.Envelope(answered | wire.ANSWER, 0, request.stream, wire.OPCODE['ERROR'],
                             wire.error_body('PROTOCOL_ERROR', text, NEWEST))

    @staticmethod
    def refused_text(text):
        """(name of an error, its words); None: 3.11 can do this."""
        for pattern, name, message in REFUSED:
            found = pattern.search(text)
            if found:
                return name, message.format(found[1])
        for (keyspace, table), names in NEW_COLUMNS.items():
            if re.search(rf'\bFROM\s+{keyspace}\s*\.\s*{table}\b', text, re.I):
                for name in names:
                    if re.search(rf'\b{name}\b', text):
                        return 'INVALID', f'Undefined column name {name}'
        return None

    @staticmethod
    def supported(options):
        """Of SUPPORTED: a multimap."""
        return {**options, 'CQL_VERSION': [CQL_VERSION], 'PROTOCOL_VERSIONS': VERSIONS}

    @staticmethod
    def result(answer, columns):
        """The RESULT with the columns and the version of 3.11. columns: those of the prepared
        statement, whose rows may come without."""
        head, message = wire.behind_extras(answer)
        reader = wire.Reader(message)
        kind = reader.int()
        if kind == wire.PREPARED:
            prepared = wire.Prepared(reader, answer.version & 0x7f)
            kept = _kept(prepared.metadata.columns)
            if kept is None:
                return answer
            body = prepared.pack([prepared.metadata.columns[place] for place in kept])
        elif kind == wire.ROWS:
            metadata = wire.Metadata(reader)
            columns = metadata.columns or columns
            kept = _kept(columns)
            if kept is None:
                return answer
            body = metadata.pack([columns[place] for place in kept])
            count = reader.int()
            body += wire.integer(count)
            for _ in range(count):
                values = [reader.bytes() for _ in columns]
                for place in kept:
                    body += wire.value(_value(columns[place], values[place]))
        else:
            return answer
        return answer.copy(body=head + wire.integer(kind) + body)


def _kept(columns):
    """The places of those that 3.11 has too; None: they are of a table that is as it was."""
    new = NEW_COLUMNS.get((columns[0].keyspace, columns[0].table)) if columns else None
    if new is None:
        return None
    return [place for place, column in enumerate(columns) if column.name not in new]


def _value(column, data):
    if data is None or column.keyspace != 'system':
        return data
    return VALUES[column.name].encode() if column.name in VALUES else data
