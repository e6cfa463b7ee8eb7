#include "flight/share_scripts.h"

/* Every script begins with these: limits of what is believed (a time that is ahead, nodes that wait), now in
 * microseconds and milliseconds, numbers of fields, how long to keep. */
#define COMMON \
    "local AHEAD_MS, NODES, NODES_BYTES = 1000, 1000, 33000\n" \
    "local t = redis.call('TIME')\n" \
    "local us = t[1] * 1000000 + t[2]\n" \
    "local now = math.floor(us / 1000)\n" \
    "local function num(s)\n" \
    "  local n = tonumber(s or '')\n" \
    "  return n and n >= 0 and n <= 9e15 and n or 0\n" \
    "end\n" \
    "local function text(n) return string.format('%.0f', n) end\n" \
    "local function is_token(s)\n" \
    "  return s and #s <= 64 and string.match(s, '^%d+%.[a-z0-9]+$') and num(string.match(s, '^%d+')) > 0\n" \
    "end\n" \
    "local function keep(su, gen)\n" \
    "  redis.call('PEXPIRE', KEYS[1], text(math.max(su - now, gen + 1000)))\n" \
    "end\n" \
    /* h: val ver k fu su at. Until when it is fresh, and until when it may be shown; 0, 0: it is not believed. */ \
    "local function life(h, fresh, stale, most)\n" \
    "  local at = num(h[6])\n" \
    "  if not h[1] or #h[1] > most or not is_token(h[2]) or at > now + AHEAD_MS then return 0, 0 end\n" \
    "  at = math.min(at, now)\n" \
    "  return math.min(num(h[4]), at + fresh), math.min(num(h[5]), at + fresh + stale)\n" \
    "end\n" \
    "local function value(kind, h, fu, su, refresh)\n" \
    "  return {kind, h[2], text(fu - now), text(su - now), text(math.max(0, now - num(h[6]))),\n" \
    "    'V', h[1], refresh and '1' or '0'}\n" \
    "end\n" \
    "local function push(nodes, message)\n" \
    "  local count = 0\n" \
    "  for node in string.gmatch(nodes or '', '%S+') do\n" \
    "    count = count + 1\n" \
    "    if count > NODES then return end\n" \
    "    redis.call('PUBLISH', 'pal:n:' .. node, message)\n" \
    "  end\n" \
    "end\n"

static const char join[] = COMMON
    "local node, lease, lease_max, gen = ARGV[1], num(ARGV[2]), num(ARGV[3]), num(ARGV[4])\n"
    "local early, since, error_max = num(ARGV[5]), ARGV[6], num(ARGV[11])\n"
    "local h = redis.call('HMGET', KEYS[1], 'val','ver','k','fu','su','at','lt','lx','ek','eu','w','f','vb','d')\n"
    "local fu, su = life(h, num(ARGV[9]), num(ARGV[10]), num(ARGV[12]))\n"
    "local lx, eu = num(h[8]), num(h[10])\n"
    "if eu - now > error_max then eu = 0 end\n"
    "local live = is_token(h[7]) and lx > now and lx - now <= lease_max\n"
    "local will_do = since == '' or (since ~= '-1' and math.min(num(h[13]), num(h[6])) > num(since))\n"
    "local idle = not live and eu <= now\n"
    "local soon = early > 0 and idle and now + num(h[14]) * early >= fu\n"
    "local peek = ARGV[7] ~= '0'\n"
    "if ARGV[8] == '1' and (not h[12] or (h[1] and su == 0)) then return {'GONE', '', ''} end\n"
    "if will_do and now < fu and (peek or not soon) then return value('HIT', h, fu, su, soon) end\n"
    "if since == '' and now < su and (peek or not idle) then return value('STALE', h, fu, su, idle) end\n"
    "if ARGV[7] == '2' then return {'NONE', '', ''} end\n"
    "if now < eu and not live then return {'ERR', h[9], text(eu - now)} end\n"
    "if live then\n"
    "  local w = h[11] or ''\n"
    "  if #w > NODES_BYTES or string.find(w, '[^a-z0-9 ]') or string.find(w, '[^ ]$') then w = '' end\n"
    "  if not string.find(' ' .. w, ' ' .. node .. ' ', 1, true) then w = w .. node .. ' ' end\n"
    "  redis.call('HSET', KEYS[1], 'w', w)\n"
    "  keep(su, gen)\n"
    "  return {'WAIT', h[7], text(lx - now), text(now)}\n"
    "end\n"
    "local fence = math.max(num(h[12]) + 1, us)\n"
    "local token = text(fence) .. '.' .. node\n"
    "redis.call('HSET', KEYS[1], 'lt', token, 'lx', text(now + lease), 'lb', text(now), 'f', text(fence))\n"
    "keep(su, gen)\n"
    "return {'GRANT', token, text(now)}\n";

static const char put[] = COMMON
    "local token, kind, payload, fresh, stale = ARGV[1], ARGV[2], ARGV[3], num(ARGV[4]), num(ARGV[5])\n"
    "local d, gen, push_max, id = ARGV[6], num(ARGV[7]), num(ARGV[8]), ARGV[9]\n"
    "local h = redis.call('HMGET', KEYS[1], 'val','ver','k','fu','su','at','lt','w','f','en','lb')\n"
    "local fence = num(string.match(token, '^%d+'))\n"
    "local absent = not h[7] and not h[9]\n"
    "if h[7] ~= token and not (absent and us - fence <= gen * 1000) then\n"
    "  local fu, su = life(h, fresh, stale, num(ARGV[13]))\n"
    "  if now < fu then return value('LOST', h, fu, su, false) end\n"
    "  return {'LOST'}\n"
    "end\n"
    "local until_, message\n"
    "if kind == 'E' then\n"
    "  local en = num(h[10]) + 1\n"
    "  local pause = math.floor(math.min(num(ARGV[11]), num(ARGV[10]) * 2 ^ (en - 1) * num(ARGV[12])))\n"
    "  until_ = now + pause\n"
    "  redis.call('HSET', KEYS[1], 'ek', payload, 'eu', text(until_), 'en', text(en),\n"
    "    'f', text(math.max(fence, num(h[9]))))\n"
    "  redis.call('HDEL', KEYS[1], 'lt', 'lx', 'lb', 'w', 'a')\n"
    "  keep(math.max(num(h[5]), until_), gen)\n"
    "  message = id .. ' ' .. token .. ' E ' .. text(pause) .. ' ' .. payload\n"
    "else\n"
    "  until_ = now + fresh\n"
    "  redis.call('HSET', KEYS[1], 'val', payload, 'ver', token, 'k', kind, 'fu', text(until_),\n"
    "    'su', text(until_ + stale), 'at', text(now), 'vb', h[11] or text(now), 'd', d,\n"
    "    'f', text(math.max(fence, num(h[9]))))\n"
    "  redis.call('HDEL', KEYS[1], 'lt', 'lx', 'lb', 'w', 'a', 'ek', 'eu', 'en')\n"
    "  keep(until_ + stale, gen)\n"
    "  if #payload <= push_max then\n"
    "    message = table.concat({id, token, kind, text(fresh), text(fresh + stale), '0', payload}, ' ')\n"
    "  else\n"
    "    message = id .. ' ' .. token .. ' L'\n"
    "  end\n"
    "end\n"
    "push(h[8], message)\n"
    "return {'OK', text(until_ - now)}\n";

static const char renew[] = COMMON
    "if redis.call('HGET', KEYS[1], 'lt') ~= ARGV[1] then return 0 end\n"
    "redis.call('HSET', KEYS[1], 'lx', text(now + num(ARGV[2])))\n"
    "keep(num(redis.call('HGET', KEYS[1], 'su')), num(ARGV[3]))\n"
    "return 1\n";

/* The third leader in a row that gives up is taken for an error. */
static const char abort_[] = COMMON
    "local h = redis.call('HMGET', KEYS[1], 'lt', 'w', 'a', 'su', 'en')\n"
    "if h[1] ~= ARGV[1] then return 0 end\n"
    "local a, id, gen = num(h[3]) + 1, ARGV[2], num(ARGV[3])\n"
    "local message = id .. ' ' .. ARGV[1] .. ' T'\n"
    "redis.call('HSET', KEYS[1], 'a', text(a))\n"
    "if a >= 3 then\n"
    "  local pause = num(ARGV[4])\n"
    "  redis.call('HSET', KEYS[1], 'a', '0', 'ek', 'aborted', 'eu', text(now + pause), 'en', text(num(h[5]) + 1))\n"
    "  message = id .. ' ' .. ARGV[1] .. ' E ' .. text(pause) .. ' aborted'\n"
    "end\n"
    "redis.call('HDEL', KEYS[1], 'lt', 'lx', 'lb', 'w')\n"
    "keep(num(h[4]), gen)\n"
    "push(h[2], message)\n"
    "return 1\n";

/* What stays is the fence: a leader under way is refused, and whoever comes next begins anew. */
static const char drop[] = COMMON
    "local h = redis.call('HMGET', KEYS[1], 'f', 'w')\n"
    "local fence = math.max(num(h[1]) + 1, us)\n"
    "redis.call('HSET', KEYS[1], 'f', text(fence))\n"
    "redis.call('HDEL', KEYS[1], 'val', 'ver', 'k', 'fu', 'su', 'at', 'd', 'vb', 'lt', 'lx', 'lb', 'w',\n"
    "  'ek', 'eu', 'en', 'a')\n"
    "keep(0, num(ARGV[2]))\n"
    "push(h[2], ARGV[1] .. ' ' .. text(fence) .. '.drop T')\n"
    "redis.call('PUBLISH', 'pal:all', ARGV[1])\n"
    "return text(fence)\n";

static const char offer[] = COMMON
    "local h = redis.call('HMGET', KEYS[1], 'val', 'ver', 'k', 'fu', 'su', 'at', 'f')\n"
    "local fence, theirs = num(string.match(ARGV[1], '^%d+')), num(h[7])\n"
    "local _, su = life(h, 9e15, 9e15, 9e15)\n"
    "if h[7] and (not h[1] or theirs > fence or (theirs == fence and su > 0)) then return 0 end\n"
    "local fresh, stale, age = num(ARGV[2]), num(ARGV[3]), num(ARGV[4])\n"
    "redis.call('HSET', KEYS[1], 'val', ARGV[6], 'ver', ARGV[1], 'k', ARGV[5], 'fu', text(now + fresh),\n"
    "  'su', text(now + stale), 'at', text(now - age), 'vb', text(now - age), 'd', '0',\n"
    "  'f', string.match(ARGV[1], '^%d+') or '0')\n"
    "keep(now + stale, num(ARGV[7]))\n"
    "return 1\n";

const struct redis_script share_scripts[SHARE_SCRIPTS] = {
    [SHARE_JOIN] = { "join", join },    [SHARE_PUT] = { "put", put },    [SHARE_RENEW] = { "renew", renew },
    [SHARE_ABORT] = { "abort", abort_ }, [SHARE_DROP] = { "drop", drop }, [SHARE_OFFER] = { "offer", offer },
};
