"""The calls on the conversations of a namespace, as a script that the server runs.

`scripts` has their basis and describes the data. The script takes the name of the call and the current time
of the store's clock, in microseconds, then the arguments of the call; conversations that have expired by then
are removed first. It returns a word ("ok", "gone", "taken", "changed", "nothing" or "foreign") and the result
of the call.
"""

from __future__ import annotations

from rag.backends.redis.lazy_index import READING
from rag.backends.redis.scripts import KEPT
from rag.backends.redis.search import SEARCH

_CONVERSATIONS = r"""
-- conversations

local function taken(name, id)
  local holder = name ~= '' and call('HGET', N, name)
  if holder and holder ~= id then return {'taken', state(holder, view(holder))} end
end
local function begun(id, v)
  if v.n ~= '' then call('HSET', N, v.n, id) end
  mark_format()
  watch('ZADD', id, v)
  written(id, v)
  lifetime()
  return {'ok', state(id, v)}
end
function ops.begin(id, name, head, ttl, keep)
  return taken(name, id) or begun(id, {h = head, n = name, c = now, t = tonumber(ttl), k = tonumber(keep),
    p = '', a = -2, o = 0, ft = 0, fm = 0, s = {{id, 0, -1}}})
end
function ops.fork(id, name, parent, at)
  at = tonumber(at)
  local from = view(parent)
  if not from then return {'gone'} end
  if not at then
    at = -1
    for _, kind in ipairs({'t', 'm'}) do
      for _, item in ipairs(shown(from, kind, 1)) do at = math.max(at, item.order) end
    end
  elseif at ~= -1 and count(from, 't', at - 1, at + 1) + count(from, 'm', at - 1, at + 1) == 0 then
    return {'nothing'}
  end
  local spans = {}
  for _, span in ipairs(from.s) do
    if span[2] <= at then
      spans[#spans + 1] = {span[1], span[2], span[3] < 0 and at or math.min(span[3], at)}
    end
  end
  spans[#spans + 1] = {id, at + 1, -1}
  return taken(name, id) or begun(id, {h = from.h, n = name, c = now, t = from.t, k = from.k, p = parent,
    a = at, o = at + 1, ft = math.min(from.ft, at + 1), fm = math.min(from.fm, at + 1), s = spans})
end
function ops.rename(id, name)
  local v = view(id)
  if not v then return {'gone'} end
  local refused = taken(name, id)
  if refused then return refused end
  if v.n ~= '' then call('HDEL', N, v.n) end
  if name ~= '' then call('HSET', N, name, id) end
  v.n = name
  save(id, v)
  return {'ok', state(id, v)}
end
function ops.find(id_or_name)
  local id = id_or_name
  if not view(id) then id = id ~= '' and call('HGET', N, id) end
  return id and {'ok', state(id, view(id))} or {'gone'}
end
function ops.views()  -- the one last written to last
  local found = {}
  for n, id in ipairs(call('ZRANGE', L, 0, -1)) do found[n] = state(id, view(id)) end
  return {'ok', found}
end
function ops.size() return {'ok', call('HLEN', C)} end
local function changed(v, expected)  -- the last turn is another one than the caller expects
  local last = expected and shown(v, 't', 1)
  local found = last and (last[1] and last[1].id or '')
  if last and found ~= expected then return {'changed', found} end
end
function ops.rewind(id, to, expected)
  local v = view(id)
  to = tonumber(to)
  if not v then return {'gone'} end
  local refused = changed(v, expected)
  if refused then return refused end
  local turns, messages = shown(v, 't', nil, to), shown(v, 'm', nil, to)
  local spans, own, held = v.s, v.s[#v.s], false
  watch('ZREM', id, v)
  v.s = {}
  save(id, v)
  for _, items in ipairs({turns, messages}) do
    for _, item in ipairs(release(items)) do
      held = held or (item.origin == own[1] and own[2] <= item.order)
    end
  end
  for n, span in ipairs(spans) do
    if n == #spans and not held then break end
    if span[2] <= to then
      v.s[#v.s + 1] = {span[1], span[2], span[3] < 0 and to or math.min(span[3], to)}
    end
  end
  v.s[#v.s + 1] = held and {own[1], v.o, -1} or own
  watch('ZADD', id, v)
  save(id, v)
  return {'ok', {#turns, #messages}}
end
function ops.drop(id, expected)
  local v = view(id)
  if not v then return {'gone'} end
  local refused = changed(v, expected)
  if refused then return refused end
  local turns = drop(id, v)
  lifetime()
  return {'ok', turns}
end
"""

_ITEMS = r"""
-- turns and messages

local function passes(marks, wanted)
  for _, mark in ipairs(marks) do
    if wanted[mark] then return true end
  end
  return false
end
function ops.list(id, kind, after, before, last, mark, without)  -- newest first
  local v, found, limit = view(id), {}, tonumber(last)
  if not v then return {'gone'} end
  mark, without = mark ~= '' and set(cjson.decode(mark)), without ~= '' and set(cjson.decode(without))
  local cut = not mark and not without and limit or nil
  for _, item in ipairs(shown(v, kind, cut, tonumber(after), tonumber(before))) do
    if limit and #found >= limit then break end
    local m = place(kind, item.id)
    if (not mark or passes(m[5], mark)) and not (without and passes(m[5], without)) then
      found[#found + 1] = entry(kind, item.id, m)
    end
  end
  return {'ok', found}
end
local function whole(kind, id)  -- with what came before
  local m, bodies = place(kind, id), {}
  if not m then return false end
  for n = 1, m[4] - 1 do bodies[n] = call('HGET', V, num(n) .. ':' .. id) end
  return {entry(kind, id, m), bodies}
end
function ops.get(kind, id)
  local found = whole(kind, id)
  return found and {'ok', found} or {'gone'}
end
function ops.some(kind, given)  -- those that are there, as they are now
  local found = {}
  for _, id in ipairs(cjson.decode(given)) do
    local m = place(kind, id)
    if m then found[#found + 1] = entry(kind, id, m) end
  end
  return {'ok', found}
end
function ops.index(id)
  local v, found = view(id), {}
  if not v then return {'gone'} end
  for _, kind in ipairs({'t', 'm'}) do
    for _, item in ipairs(shown(v, kind)) do found[#found + 1] = {item.order, kind, item.id} end
  end
  return {'ok', found}
end
function ops.fetch(given)
  local found = {}
  for n, one in ipairs(cjson.decode(given)) do found[n] = whole(one[1], one[2]) end
  return {'ok', found}
end
function ops.edit(id, length, words, body)
  local m, field = place('t', id), 't' .. id
  if not m then return {'gone'} end
  local before, given = cjson.decode(call('HGET', W, field) or '[[],[]]'), cjson.decode(words)
  local cited, known = {}, {}
  if m[3] < 0 then call('HINCRBY', M, 'unread', -1)
  else
    unpost(m[1], m[2], 't', before[1])
    sum(m[1], -m[3])
  end
  for _, list in ipairs({before[2], given[2]}) do
    for _, where in ipairs(list) do
      local spot = piece(where[1]) .. piece(where[2]) .. where[3]
      if not known[spot] then cited[#cited + 1] = where end
      known[spot] = true
    end
  end
  call('HSET', V, num(m[4]) .. ':' .. id, call('HGET', I, field))
  m[3], m[4] = tonumber(length), m[4] + 1
  put('t', id, m, cjson.encode({given[1], cited}), body)
  lifetime()
  return {'ok', entry('t', id, m)}
end
function ops.delete(kind, given, where)  -- only what a conversation shows, where one is named
  local id, total = cjson.decode(where)[1], 0
  local v = id and view(id)
  if id and not v then return {'gone'} end
  for _, one in ipairs(cjson.decode(given)) do
    local m = place(kind, one)
    local item = m and {kind = kind, id = one, origin = m[1], order = m[2]}
    if item and (not v or shows(v, item)) then
      remove(item)
      total = total + 1
    end
  end
  return {'ok', total}
end
function ops.unmarked(id, marks)  -- deletes by mark
  local v, wanted, total = view(id), set(cjson.decode(marks)), 0
  if not v then return {'gone'} end
  for _, kind in ipairs({'t', 'm'}) do
    for _, item in ipairs(shown(v, kind)) do
      if passes(place(kind, item.id)[5], wanted) then
        remove(item)
        total = total + 1
      end
    end
  end
  return {'ok', total}
end
function ops.mark(id, given)
  local v, asked, changed = view(id), cjson.decode(given), 0
  if not v then return {'gone'} end
  local new, old, ids = asked.new, asked.old, asked.ids and set(asked.ids)
  for _, kind in ipairs({'t', 'm'}) do
    for _, item in ipairs(shown(v, kind)) do
      local m = (not ids or ids[item.id]) and place(kind, item.id)
      local held = m and set(m[5])
      if m and (not old or held[old]) and old ~= new and not (not old and held[new]) then
        if old then held[old] = nil end
        if new then held[new] = true end
        m[5] = {}
        for mark in pairs(held) do m[5][#m[5] + 1] = mark end
        call('HSET', X, kind .. item.id, pack(m))
        changed = changed + 1
      end
    end
  end
  return {'ok', changed}
end
"""

_RESTORING = r"""
-- restoring: what is there already stays

function ops.there(given)  -- which of these conversations are, unless a name is another's
  local found = {}
  for _, one in ipairs(cjson.decode(given)) do
    if view(one[1]) then found[#found + 1] = one[1] else
      local refused = taken(one[2], one[1])
      if refused then return refused end
    end
  end
  return {'ok', found}
end
local function load(item, words, bodies)
  local kind, id, m = item[1], item[2], item[3]
  local spot = {s = {{m[1], 0, -1}}, ft = 0, fm = 0}
  local occupied = count(spot, 't', m[2] - 1, m[2] + 1) + count(spot, 'm', m[2] - 1, m[2] + 1) > 0
  if occupied or place(kind, id) then return end
  put(kind, id, m, words, bodies[#bodies])
  for n = 1, #bodies - 1 do call('HSET', V, num(n) .. ':' .. id, bodies[n]) end
  local v = view(m[1])
  if v and v.o <= m[2] then
    v.o = m[2] + 1
    save(m[1], v)
  end
end
function ops.restore(names, given, conversations)
  local there = ops.there(names)
  if there[1] ~= 'ok' then return there end
  local at, total = 6, 0
  mark_format()
  for _, item in ipairs(cjson.decode(given)) do
    local bodies = {}
    for n = 1, item[3][4] do bodies[n] = ARGV[at + n] end
    load(item, ARGV[at], bodies)
    at = at + item[3][4] + 1
  end
  for _, given_view in ipairs(cjson.decode(conversations)) do
    local id, v = unpack(given_view)
    if not view(id) then
      save(id, v)
      if v.n ~= '' then call('HSET', N, v.n, id) end
      if v.e then call('ZADD', E, num(v.e), id) end
      call('ZADD', L, call('HINCRBY', M, 'written', 1), id)
      watch('ZADD', id, v)
      total = total + 1
    end
  end
  lifetime()
  return {'ok', total}
end

purge()
settle()
local reply = ops[op](unpack(ARGV, 3, math.min(#ARGV, 9)))
settle()
return {reply[1], reply[2] or ''}
"""

SOURCE = KEPT + _CONVERSATIONS + _ITEMS + READING + SEARCH + _RESTORING
