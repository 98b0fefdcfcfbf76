"""Which turns and messages hold a term, packed so that it costs little to keep.

Orders of a conversation are gathered in blocks of 256. For each term, P has for each block a string of six
bytes for each holder: the order within the block, the kind, and how often it holds the term. T says which
blocks of which conversations there are, five bytes for each: the conversation's number within 256 of them,
and the number of the block. What a script changes is gathered and written once at its end (`settle`).

How many hold a term is thus known from the lengths of a few strings, and the newest are in the last of them:
nothing older is looked into.
"""

from __future__ import annotations

POSTINGS = r"""
-- postings

local find, byte, sub = string.find, string.byte, string.sub
local origins = {}
local pending = {added = {}, gone = {}}  -- by field: entries, and what those begin with that are to go

local function number_of(origin)
  if not origins[origin] then
    local known = call('HGET', O, 'i' .. origin)
    if not known then
      known = num(call('HINCRBY', M, 'origins', 1))
      call('HSET', O, 'i' .. origin, known, 'n' .. known, origin)
    end
    origins[origin] = tonumber(known)
  end
  return origins[origin]
end
local function forget(origin)  -- when nothing is left of it
  local all = {s = {{origin, 0, -1}}, ft = 0, fm = 0}
  if view(origin) or count(all, 't') + count(all, 'm') > 0 then return end
  local known = call('HGET', O, 'i' .. origin)
  if known then call('HDEL', O, 'i' .. origin, 'n' .. known) end
  origins[origin] = nil
end
local function without(value, width, head)  -- the entries but the one that begins so
  local at = find(value, head, 1, true)
  while at and (at - 1) % width ~= 0 do at = find(value, head, at + 1, true) end
  return at and sub(value, 1, at - 1) .. sub(value, at + width) or value
end
local function post(origin, order, kind, counts)
  local prefix = num(number_of(origin)) .. ':' .. num(math.floor(order / 256)) .. ':'
  local head, added, entries = string.char(order % 256) .. kind, pending.added, {}
  for term, times in pairs(counts) do
    local field, packed = prefix .. term, entries[times]
    if not packed then
      packed = head .. struct.pack('>I4', times)
      entries[times] = packed
    end
    local before = added[field]
    added[field] = before and before .. packed or packed
  end
end
local function unpost(origin, order, kind, counts)
  local prefix = num(number_of(origin)) .. ':' .. num(math.floor(order / 256)) .. ':'
  local head, added, gone = string.char(order % 256) .. kind, pending.added, pending.gone
  for term in pairs(counts) do
    local field = prefix .. term
    local before = added[field]
    local after = before and without(before, 6, head)
    if after ~= before then
      added[field] = after
    else
      gone[field] = gone[field] or {}
      table.insert(gone[field], head)
    end
  end
end
local function write(key, width, changes, seen)
  local fields, begun, over = {}, {}, {}
  for field in pairs(changes.added) do fields[#fields + 1] = field end
  for field in pairs(changes.gone) do
    if not changes.added[field] then fields[#fields + 1] = field end
  end
  local values = many('HMGET', key, fields)
  for n, field in ipairs(fields) do
    local before, after = values[n] or '', values[n] or ''
    local gone = changes.gone[field] or {}
    if #gone * width == #after then after = ''  -- each of them once
    else for _, head in ipairs(gone) do after = without(after, width, head) end end
    after = after .. (changes.added[field] or '')
    if after == '' then over[#over + 1] = field
    else begun[#begun + 1] = field; begun[#begun + 1] = after end
    if seen and (before == '') ~= (after == '') then seen(field, after ~= '') end
  end
  many('HSET', key, begun)
  many('HDEL', key, over)
end
local function settle()  -- writes what was changed
  if next(pending.added) == nil and next(pending.gone) == nil then return end
  local listed = {added = {}, gone = {}}
  local function seen(field, is_there)
    local number, block, term = field:match('^(%d+):(%d+):(.*)$')
    local where = num(math.floor(number / 256)) .. ':' .. term
    local entry = string.char(number % 256) .. struct.pack('>I4', tonumber(block))
    if is_there then
      listed.added[where] = (listed.added[where] or '') .. entry
    else
      listed.gone[where] = listed.gone[where] or {}
      table.insert(listed.gone[where], entry)
    end
  end
  write(P, 6, pending, seen)
  write(T, 5, listed)
  pending = {added = {}, gone = {}}
end

-- reading: blocks are {number, block, origin, first, last, what their fields begin with}, the newest first;
-- entries are read where they are packed, and a block's are told apart by what they begin with

local function blocks_shown(v)
  local found, floor = {}, math.min(v.ft, v.fm)
  for n = #v.s, 1, -1 do
    local origin, first, last = v.s[n][1], math.max(v.s[n][2], floor), v.s[n][3]
    last = last < 0 and v.o - 1 or last
    local known = first <= last and call('HGET', O, 'i' .. origin)
    if known then
      for block = math.floor(last / 256), math.floor(first / 256), -1 do
        found[#found + 1] = {tonumber(known), block, origin, first, last, known .. ':' .. num(block) .. ':'}
      end
    end
  end
  return found
end
local function blocks_listed(term)
  local fields, found, names = {}, {}, {}
  for n = 0, math.floor(tonumber(call('HGET', M, 'origins') or 0) / 256) do
    fields[#fields + 1] = num(n) .. ':' .. term
  end
  for n, value in ipairs(many('HMGET', T, fields)) do
    for at = 1, value and #value or 0, 5 do
      local number = (n - 1) * 256 + value:byte(at)
      local block = struct.unpack('>I4', value:sub(at + 1, at + 4))
      found[#found + 1] = {number, block, false, 0, END, num(number) .. ':' .. num(block) .. ':'}
      names[#found] = 'n' .. num(number)
    end
  end
  for n, origin in ipairs(many('HMGET', O, names)) do found[n][3] = origin end
  table.sort(found, function(a, b) return a[2] > b[2] end)
  return found
end
local function times_in(value, head)  -- of one item; nil when it does not hold the term
  local at = find(value, head, 1, true)
  while at and (at - 1) % 6 ~= 0 do at = find(value, head, at + 1, true) end
  return at and (struct.unpack('>I4', value, at + 2))
end
local function take(found, block, value, v)  -- the holders in a block that are shown; how many
  local base, first, last, before = block[2] * 256, block[4], block[5], #found
  local turns, messages = v and v.ft or 0, v and v.fm or 0
  for at = 1, #value, 6 do
    local order, is_turn = base + byte(value, at), byte(value, at + 1) == 116
    if first <= order and order <= last and order >= (is_turn and turns or messages) then
      found[#found + 1] = {origin = block[3], kind = is_turn and 't' or 'm', order = order,
        head = sub(value, at, at + 1), spot = block[6]}
    end
  end
  return #found - before
end
local function is_whole(block, v)
  local first = block[2] * 256
  return block[4] <= first and first + 255 <= block[5] and not (v and (first < v.ft or first < v.fm))
end
local function holders(v, term, limit, shown_blocks)  -- how many; enough of the newest; values by place
  local blocks, fields, by_place, total, found = shown_blocks or blocks_listed(term), {}, {}, 0, {}
  for n = 1, #blocks do fields[n] = blocks[n][6] .. term end
  local values, past = many('HMGET', P, fields), nil
  for n = 1, #blocks do
    local block, value = blocks[n], values[n]
    if value then
      by_place[block[6]] = value
      if #found < limit or block[2] >= past then
        total = total + take(found, block, value, v)
        past = block[2]
      elseif is_whole(block, v) then
        total = total + #value / 6
      else
        total = total + take({}, block, value, v)
      end
    end
  end
  return total, found, by_place
end
"""
