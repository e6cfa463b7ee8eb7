/* restbase_fixture.js - writes fixtures/restbase.cql: what RESTBase leaves in a Cassandra, made by
 * its own table module. Run by hand, not by CI:
 *
 *   tools/cassandra/run.py up && tools/cassandra/run.py status     # says HOST:PORT
 *   mkdir /tmp/rb && cd /tmp/rb && npm install --ignore-scripts restbase-mod-table-cassandra@1.2.1
 *   node restbase_fixture.js /tmp/rb HOST:PORT > test/cassandra/fixtures/restbase.cql
 *
 * It makes tables as RESTBase's buckets ask for them, puts rows through the module, then tells what
 * it finds in the node as CQL: keyspaces, tables, and each row as an INSERT. {replication} in the
 * output stands for the replication of whoever reads it. The schemas below are those that the
 * buckets multi_content_bucket, key_rev_value and key_value of RESTBase up to 0.19 ask for. */
'use strict';

const path = require('path');

const [modules, point] = process.argv.slice(2);
if (!point) {
    console.error('usage: node restbase_fixture.js FOLDER HOST:PORT > FILE');
    process.exit(2);
}
const load = (name) => require(path.resolve(modules, 'node_modules', name));
const driver = load('cassandra-driver');
const makeBackend = load('restbase-mod-table-cassandra');

const GROUP = 'test.group.local';
const DOMAINS = ['en.example.org', 'de.example.org'];
const TITLES = ['Earth', 'Mars', 'Talk:Moon_landing', 'Z\u00fcrich', 'A/B?c&d"e\'f'];
const INDEX = [
    { attribute: 'key', type: 'hash' },
    { attribute: 'rev', type: 'range', order: 'desc' },
    { attribute: 'tid', type: 'range', order: 'desc' },
];
const OPTIONS = {
    compression: [{ algorithm: 'deflate', block_size: 256 }],
    updates: { pattern: 'timeseries' },
};

function contentSchema(valueType) { /* multi_content_bucket */
    return {
        version: 4000,
        options: OPTIONS,
        attributes: {
            key: 'string',
            rev: 'int',
            tid: 'timeuuid',
            value: valueType,
            'content-location': 'string',
            'content-type': 'string',
            headers: 'json',
            tags: 'set<string>',
        },
        index: INDEX,
    };
}

function revisionSchema(valueType, more) { /* key_rev_value */
    return {
        version: 1000,
        options: Object.assign({ default_time_to_live: undefined }, OPTIONS),
        attributes: Object.assign({
            key: 'string', rev: 'int', tid: 'timeuuid', value: valueType, headers: 'json',
        }, more),
        index: INDEX.concat(more && more.latest_tid ?
            [{ attribute: 'latest_tid', type: 'static' }] : []),
    };
}

const TABLES = {
    'parsoid_ng.html': contentSchema('blob'),
    'parsoid_ng.data-parsoid': contentSchema('json'),
    'mobile': revisionSchema('json'),
    'parsoid-stash.html': revisionSchema('string', { latest_tid: 'timeuuid' }),
    'parsoid': { /* key_value: no revision, so nothing that can be taken */
        version: 5000,
        options: OPTIONS,
        attributes: { key: 'string', tid: 'timeuuid', headers: 'json', value: 'json' },
        index: [{ attribute: 'key', type: 'hash' }],
    },
    'parsoid_ng-revision-timeline': {
        version: 2,
        attributes: { key: 'string', ts: 'timestamp', rev: 'int' },
        index: [{ attribute: 'key', type: 'hash' },
            { attribute: 'ts', type: 'range', order: 'desc' }],
        options: { default_time_to_live: 864000 },
    },
};

/* Version 1, the time, and the same node each time. */
const EPOCH = 0x01B21DD213814000n;
const tidOf = (seconds, node) => {
    const ticks = (BigInt(seconds) * 10000000n + EPOCH).toString(16).padStart(15, '0');
    const tail = (0x0200 + node).toString(16).padStart(12, '0');
    return `${ticks.slice(7)}-${ticks.slice(3, 7)}-1${ticks.slice(0, 3)}-8001-${tail}`;
};
const BEGAN = 1550000000; /* February 2019 */

const typeOf = (mime, spec) =>
    `${mime}; charset=utf-8; profile="https://www.mediawiki.org/wiki/Specs/${spec}/2.0.0"`;

function bundle(title, rev, tid, n) {
    const etag = `"${rev}/${tid}"`;
    const about = `http://en.example.org/wiki/Special:Redirect/revision/${rev}`;
    const html = `<!DOCTYPE html>\n<html about="${about}">` +
        `<head><meta property="mw:TimeUuid" content="${tid}"/><title>${title}</title></head>` +
        '<body id="mwAA"><p id="mwAQ">' +
        `${title}, revision ${rev}, render ${n} \u2713</p></body></html>`;
    return {
        html: {
            headers: {
                'content-language': 'en',
                vary: 'Accept-Language',
                etag,
                'content-type': typeOf('text/html', 'HTML'),
            },
            body: html,
        },
        'data-parsoid': {
            headers: { etag, 'content-type': typeOf('application/json', 'data-parsoid') },
            body: { counter: n, ids: { mwAA: { dsr: [0, rev, 0, 0] }, mwAQ: {} } },
        },
    };
}

async function ok(what, promise) {
    const answer = await promise;
    if (answer.status >= 300) {
        throw new Error(`${what}: ${answer.status} ${JSON.stringify(answer.body).slice(0, 2000)}`);
    }
    return answer;
}

async function fill(backend) {
    const op = backend.operations;
    const put = (domain, table, attributes) => ok(`put ${table}`, op.put(null, {
        params: { domain, table }, body: { table, attributes },
    }));
    const putPage = async (domain, title, rev, tid, n) => {
        const contents = bundle(title, rev, tid, n);
        for (const name of Object.keys(contents)) {
            const { headers, body } = contents[name];
            await put(domain, `parsoid_ng.${name}`, {
                key: title, rev, tid, value: body, headers, 'content-type': headers['content-type'],
            });
        }
    };
    for (const table of Object.keys(TABLES)) {
        await ok(`create ${table}`, op.createTable(null, {
            params: { domain: DOMAINS[0], table }, body: JSON.parse(JSON.stringify(TABLES[table])),
        }));
    }
    for (const [d, domain] of DOMAINS.entries()) {
        for (const [p, title] of TITLES.slice(0, d === 0 ? TITLES.length : 1).entries()) {
            for (let rev = 10; rev < (p > 1 ? 12 : 13); rev++) {
                for (let n = 1; n <= (rev === 11 ? 2 : 1); n++) {
                    await putPage(domain, title, rev, tidOf(BEGAN + p * 1000 + rev * 10 + n, d), n);
                }
            }
        }
    }
    const tid = tidOf(BEGAN, 7);
    const etag = `"12/${tid}"`;
    await put(DOMAINS[0], 'mobile', {
        key: 'Earth', rev: 12, tid, value: { sections: [{ id: 0, text: '<p>Earth' }] },
        headers: {
            etag, 'content-type': 'application/json', host: 'restbase:7231', 'x-request-id': tid,
        },
    });
    await put(DOMAINS[0], 'parsoid-stash.html', {
        key: 'Earth', rev: 12, tid, value: '<p>stashed', latest_tid: tid,
        headers: { 'content-type': 'text/html' },
    });
    await put(DOMAINS[0], 'parsoid', {
        key: 'Earth', tid, value: bundle('Earth', 12, tid, 1), headers: { etag },
    });
}

const text = (s) => `'${s.replace(/'/g, "''")}'`;
function literal(type, v) {
    if (v === null || v === undefined) { return 'null'; }
    switch (type) {
    case 'text': return text(v);
    case 'blob': return `0x${v.toString('hex')}`;
    case 'int': case 'bigint': case 'timeuuid': case 'uuid': case 'varint': return v.toString();
    case 'timestamp': return text(v.toISOString());
    case 'set<text>': return `{${v.map(text).join(', ')}}`;
    default: throw new Error(`no literal of ${type}`);
    }
}
const name = (s) => `"${s.replace(/"/g, '""')}"`;

async function tellTable(out, all, space, table) {
    const columns = await all('SELECT column_name, kind, position, clustering_order, type ' +
        'FROM system_schema.columns WHERE keyspace_name = ? AND table_name = ?',
    [space, table.table_name]);
    const keys = (kind) => columns.filter((c) => c.kind === kind)
        .sort((a, b) => a.position - b.position);
    const list = (some) => some.map((c) => name(c.column_name)).join(', ');
    const clustering = keys('clustering');
    const full = `${name(space)}.${name(table.table_name)}`;
    const options = [];
    if (clustering.length) {
        const order = clustering.map((c) => `${name(c.column_name)} ${c.clustering_order}`);
        options.push(`CLUSTERING ORDER BY (${order.join(', ')})`);
    }
    if (table.default_time_to_live) {
        options.push(`default_time_to_live = ${table.default_time_to_live}`);
    }
    const primary = [`(${list(keys('partition_key'))})`].concat(clustering.length ?
        [list(clustering)] : []);
    out.push(`CREATE TABLE ${full} (`,
        ...columns.map((c) =>
            `    ${name(c.column_name)} ${c.type}${c.kind === 'static' ? ' static' : ''},`),
        `    PRIMARY KEY (${primary.join(', ')})`,
        `)${options.length ? ` WITH ${options.join(' AND ')}` : ''};`);
    for (const row of await all(`SELECT * FROM ${full}`)) {
        const had = columns.filter((c) => row[c.column_name] !== null);
        const values = had.map((c) => literal(c.type, row[c.column_name]));
        out.push(`INSERT INTO ${full} (${list(had)})`, `    VALUES (${values.join(', ')});`);
    }
}

async function tell(client) {
    const all = async (cql, params) =>
        (await client.execute(cql, params || [], { prepare: true })).rows;
    const out = ['-- What restbase-mod-table-cassandra 1.2.1 leaves in Cassandra 5.0.9, told by',
        '-- test/cassandra/restbase_fixture.js. {replication} is for whoever reads this file.'];
    const spaces = (await all('SELECT keyspace_name FROM system_schema.keyspaces'))
        .map((r) => r.keyspace_name).filter((k) => /_T_/.test(k)).sort();
    for (const space of spaces) {
        out.push('', `CREATE KEYSPACE ${name(space)} WITH replication = {replication};`);
        const tables = await all('SELECT table_name, default_time_to_live ' +
            'FROM system_schema.tables WHERE keyspace_name = ?', [space]);
        for (const table of tables) {
            await tellTable(out, all, space, table);
        }
    }
    process.stdout.write(`${out.join('\n')}\n`);
}

async function main() {
    const [host, port] = point.split(':');
    const plain = new driver.Client({
        contactPoints: [host], protocolOptions: { port: Number(port), maxVersion: 3 },
    });
    await plain.connect();
    for (const row of (await plain.execute('SELECT keyspace_name FROM system_schema.keyspaces'))
        .rows) {
        if (/_T_/.test(row.keyspace_name)) {
            await plain.execute(`DROP KEYSPACE ${name(row.keyspace_name)}`);
        }
    }
    /* The module knows no port: its driver is told here. */
    const Real = driver.Client;
    driver.Client = function (o) {
        o.protocolOptions.port = Number(port);
        return new Real(o);
    };
    const backend = await makeBackend({
        log: () => {},
        conf: {
            hosts: [host],
            localDc: 'dc1',
            datacenters: ['dc1'],
            defaultConsistency: 'one',
            storage_groups: [{ name: GROUP, domains: DOMAINS }],
        },
    });
    await fill(backend);
    await tell(plain);
    process.exit(0);
}

main().catch((e) => {
    console.error(e);
    process.exit(1);
});
