"""The data of a namespace, and the basis of its script; the calls are in `calls`.

A script is atomic and uses keys with one hash tag, so it runs on a cluster like on a single server. All keys
of a namespace have the same tag: a namespace is on one node, and namespaces are spread over the nodes.

    C  hash   conversation → its name, times, limits and spans (see `rag.turns.model`), packed
    N  hash   name → conversation
    L  zset   conversations by last write: a number that only increases
    E  zset   conversations by expiry
    M  hash   that number, the version of this format, how many items are unread, and the number of terms
              in all and in each conversation
    I  hash   item (kind and id) → the JSON text of its current version
    X  hash   item → origin, order, length (-1 while it is unread), version, marks
    W  hash   item → its terms with their counts, and its citations, as JSON; no terms while it is unread
    Q  hash   conversation → an order below which no item is unread, see `lazy_index`
    S  zset   conversation, kind, order, id: in the order of these bytes
    P  hash   number of a conversation, block of 256 orders, term → who holds it, see `postings`;
              without a block: how many do
    T  hash   256 numbers, term → which conversations and blocks of them are in P
    O  hash   conversation → its number, and back
    D  zset   path, location, blob, id
    V  hash   number and id → an earlier version's JSON text
    Y  zset   conversation, fork that shows a part of it

If every conversation has a time to live, the server deletes the keys an hour after the last one has expired.
"""

from __future__ import annotations

from rag.backends.redis.lazy_index import ADDING
from rag.backends.redis.postings import POSTINGS

KEYS = tuple("CNLEMIXWSPTODVYQ")
FORMAT = 2
"""The version of this format. Version 1 has no unread items; a namespace of a later version is rejected."""

_BASIS = r"""
local C, N, L, E, M, I, X, W, S, P, T, O, D, V, Y, Q = unpack(KEYS)
local op, now = ARGV[1], tonumber(ARGV[2])
local END, AN_HOUR = 9e15, 3600000
local call, pack, open = redis.call, cmsgpack.pack, cmsgpack.unpack
local ops, views = {}, {}
local format, dated = call('HGET', M, 'format'), call('ZCARD', E)

local function num(n) return string.format('%.0f', n) end
local function wide(n) return string.format('%016.0f', n) end
local function piece(text) return #text .. ':' .. text end
local function many(command, key, args)  -- calls with an even number of arguments; all replies in one list
  local replies = {}
  for n = 1, #args, 1000 do
    local reply = call(command, key, unpack(args, n, math.min(n + 999, #args)))
    if type(reply) == 'table' then
      for k = 1, #reply do replies[n + k - 1] = reply[k] end
    end
  end
  return replies
end

local function view(id)
  if views[id] == nil then
    local raw = call('HGET', C, id)
    views[id] = raw and open(raw)
  end
  return views[id]
end
local function save(id, v)
  call('HSET', C, id, pack(v))
  views[id] = v
end
local function mark_format()
  if format == '1' then call('HSET', M, 'counted', call('HGET', M, 'origins') or 0) end
  call('HSET', M, 'format', FORMAT)
  format = FORMAT
end
local function written(id, v)
  v.u = now
  call('ZADD', L, call('HINCRBY', M, 'written', 1), id)
  if v.t > 0 then
    v.e = math.min(now + v.t, END)
    call('ZADD', E, num(v.e), id)
    dated = dated + 1
  end
  save(id, v)
end
local function lifetime()
  dated = call('ZCARD', E)
  if dated == 0 then return end
  if dated < call('HLEN', C) then
    for _, key in ipairs(KEYS) do call('PERSIST', key) end
    return
  end
  local last = tonumber(call('ZREVRANGE', E, 0, 0, 'WITHSCORES')[2])
  local left = num(math.max(math.ceil((last - now) / 1000), 0) + AN_HOUR)
  for _, key in ipairs(KEYS) do call('PEXPIRE', key, left) end
end
local function place(kind, id)
  local raw = call('HGET', X, kind .. id)
  return raw and open(raw)
end
local function entry(kind, id, m)
  return {kind, id, m[1], m[2], m[4], m[5], call('HGET', I, kind .. id)}
end
local function spot_cited(id, where) return piece(where[1]) .. piece(where[2]) .. piece(where[3]) .. id end
if format and tonumber(format) > tonumber(FORMAT) then return {'foreign', format} end
"""

_CONVERSATIONS = r"""
local function set(list)
  local found = {}
  for _, one in ipairs(list) do found[one] = true end
  return found
end

-- conversations

local function ranges(v, kind, after, before)
  local floor = math.max(v['f' .. kind], (after or -1) + 1)
  local stop, found = before and before - 1 or END, {}
  for _, span in ipairs(v.s) do
    local first = math.max(span[2], floor)
    local last = math.min(span[3] < 0 and END or span[3], stop)
    if first <= last then found[#found + 1] = {span[1], first, last} end
  end
  return found
end
local function bounds(range, kind)
  local prefix = piece(range[1]) .. kind
  return '[' .. prefix .. wide(range[2]), '[' .. prefix .. wide(range[3]) .. '\255', #prefix
end
local function count(v, kind, after, before)
  local total = 0
  for _, range in ipairs(ranges(v, kind, after, before)) do
    local low, high = bounds(range, kind)
    total = total + call('ZLEXCOUNT', S, low, high)
  end
  return total
end
local function shown(v, kind, limit, after, before)  -- newest first
  local found, spans = {}, ranges(v, kind, after, before)
  for n = #spans, 1, -1 do
    if limit and #found >= limit then break end
    local low, high, skip = bounds(spans[n], kind)
    local left = limit and limit - #found or -1
    for _, member in ipairs(call('ZREVRANGEBYLEX', S, high, low, 'LIMIT', 0, left)) do
      found[#found + 1] = {id = member:sub(skip + 17), kind = kind, origin = spans[n][1],
        order = tonumber(member:sub(skip + 1, skip + 16))}
    end
  end
  return found
end
local function shows(v, item)
  if item.order < v['f' .. item.kind] then return false end
  for _, span in ipairs(v.s) do
    if span[1] == item.origin and span[2] <= item.order and (span[3] < 0 or item.order <= span[3]) then
      return true
    end
  end
  return false
end
local function watch(command, id, v)  -- conversations that also show the items of a conversation
  for _, span in ipairs(v.s) do
    if span[1] ~= id then
      if command == 'ZADD' then call(command, Y, 0, piece(span[1]) .. id)
      else call(command, Y, piece(span[1]) .. id) end
    end
  end
end
local function viewers(origin)
  local prefix, found = piece(origin), {view(origin) or nil}
  for _, member in ipairs(call('ZRANGEBYLEX', Y, '[' .. prefix, '[' .. prefix .. '\255')) do
    found[#found + 1] = view(member:sub(#prefix + 1)) or nil
  end
  return found
end
local function state(id, v)
  local spans = {}
  for n, span in ipairs(v.s) do spans[n] = {span[1], span[2], span[3]} end
  return {id, v.h, v.n, v.c, v.u, count(v, 't'), count(v, 'm'), v.p, v.a, v.k, v.o, v.ft, v.fm, spans}
end

"""

_ITEMS = r"""
-- items: origin, order, length, version, marks

local function cite(command, id, cited)
  for _, where in ipairs(cited) do
    local member = spot_cited(id, where)
    if command == 'ZADD' then call(command, D, 0, member) else call(command, D, member) end
  end
end
local function sum(origin, length)
  call('HINCRBY', M, 'length', length)
  if call('HINCRBY', M, 'of' .. origin, length) == 0 then call('HDEL', M, 'of' .. origin) end
end
local function spot_of(kind, id, m) return piece(m[1]) .. kind .. wide(m[2]) .. id end
local function put(kind, id, m, words, body)
  local field, given = kind .. id, cjson.decode(words)
  call('HSET', I, field, body)
  call('HSET', X, field, pack(m))
  call('HSET', W, field, words)
  call('ZADD', S, 0, spot_of(kind, id, m))
  post(m[1], m[2], kind, given[1])
  cite('ZADD', id, given[2])
  sum(m[1], m[3])
end
local function remove(item)
  local kind, id = item.kind, item.id
  local field, m = kind .. id, place(kind, id)
  local words = cjson.decode(call('HGET', W, field) or '[[],[]]')
  if m[3] < 0 then call('HINCRBY', M, 'unread', -1)
  else
    unpost(m[1], m[2], kind, words[1])
    sum(m[1], -m[3])
  end
  cite('ZREM', id, words[2])
  call('HDEL', I, field); call('HDEL', X, field); call('HDEL', W, field)
  for n = 1, m[4] - 1 do call('HDEL', V, num(n) .. ':' .. id) end
  call('ZREM', S, spot_of(kind, id, m))
end
local function release(items)  -- removes items that no conversation shows; returns the others
  local staying, known = {}, {}
  for _, item in ipairs(items) do
    known[item.origin] = known[item.origin] or viewers(item.origin)
    local held = false
    for _, v in ipairs(known[item.origin]) do
      if shows(v, item) then held = true; break end
    end
    if held then staying[#staying + 1] = item else remove(item) end
  end
  return staying
end
local function drop(id, v)
  local turns, messages = shown(v, 't'), shown(v, 'm')
  watch('ZREM', id, v)
  call('HDEL', C, id); call('ZREM', L, id); call('ZREM', E, id)
  if v.n ~= '' then call('HDEL', N, v.n) end
  views[id] = false
  release(turns); release(messages)
  for _, span in ipairs(v.s) do forget(span[1]) end
  if call('HLEN', C) == 0 and call('ZCARD', S) == 0 then
    call('DEL', M, O, Q)
    origins = {}
  end
  return #turns
end
local function purge()
  local over = call('ZRANGEBYSCORE', E, '-inf', num(now))
  for _, id in ipairs(over) do drop(id, view(id)) end
  if #over > 0 then lifetime() end
end
"""

KEPT = f"local FORMAT = '{FORMAT}'" + _BASIS + ADDING + _CONVERSATIONS + POSTINGS + _ITEMS
