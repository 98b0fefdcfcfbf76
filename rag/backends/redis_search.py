"""The calls that find turns and messages by their words and citations, see `redis_calls`."""

from __future__ import annotations

SEARCH = r"""
-- search: of each term the newest holders, and every holder once

local function searched(v)
  if not v then return call('ZCARD', S), tonumber(call('HGET', M, 'length') or 0) end
  local items, length, only = count(v, 't') + count(v, 'm'), 0, v.s[1]
  if #v.s == 1 and only[2] + v.ft + v.fm == 0 then
    return items, tonumber(call('HGET', M, 'of' .. only[1]) or 0)
  end
  for _, kind in ipairs({'t', 'm'}) do
    for _, item in ipairs(shown(v, kind)) do length = length + place(kind, item.id)[3] end
  end
  return items, length
end
local function id_at(origin, kind, order)
  local prefix = piece(origin) .. kind .. wide(order)
  return call('ZRANGEBYLEX', S, '[' .. prefix, '[' .. prefix .. '\255', 'LIMIT', 0, 1)[1]:sub(#prefix + 1)
end
local function name(found)  -- gives items their ids; those that stand near each other are read together
  local near = {}
  for _, item in ipairs(found) do
    local where = item.spot .. item.kind
    local group = near[where]
    if not group then near[where] = {item, low = item.order, high = item.order}
    else
      group[#group + 1] = item
      group.low, group.high = math.min(group.low, item.order), math.max(group.high, item.order)
    end
  end
  for _, group in pairs(near) do
    if #group * 6 < group.high - group.low then
      for _, item in ipairs(group) do item.id = id_at(item.origin, item.kind, item.order) end
    else
      local low, high, skip = bounds({group[1].origin, group.low, group.high}, group[1].kind)
      local ids = {}
      for _, member in ipairs(call('ZRANGEBYLEX', S, low, high)) do
        ids[tonumber(member:sub(skip + 1, skip + 16))] = member:sub(skip + 17)
      end
      for _, item in ipairs(group) do item.id = ids[item.order] end
    end
  end
end
local function lengths(found)
  local fields, read = {}, {}
  for n, item in ipairs(found) do fields[n] = item.kind .. item.id end
  for n, raw in ipairs(many('HMGET', X, fields)) do read[n] = open(raw)[3] end
  return read
end
local function cut(holding, limit)  -- the newest; of the same order by their ids
  if #holding <= limit then return holding end
  table.sort(holding, function(a, b) return a.order > b.order end)
  local kept, same, last = {}, {}, holding[limit].order
  for _, item in ipairs(holding) do
    if item.order > last then kept[#kept + 1] = item
    elseif item.order == last then
      item.id = id_at(item.origin, item.kind, item.order)
      same[#same + 1] = item
    else break end
  end
  table.sort(same, function(a, b) return a.id < b.id end)
  for n = 1, limit - #kept do kept[#kept + 1] = same[n] end
  return kept
end
function ops.match(where, given, limit)
  local id, terms, found, known, totals = cjson.decode(where)[1], cjson.decode(given), {}, {}, {}
  local v = id and view(id)
  if id and not v then return {'gone'} end
  limit = tonumber(limit)
  local blocks, here = {}, v and blocks_shown(v)
  for n, term in ipairs(terms) do
    local holding
    totals[n], holding, blocks[n] = holders(v, term, limit, here)
    for _, item in ipairs(cut(holding, limit)) do
      local here_ = known[item.spot] or {}
      known[item.spot] = here_
      if not here_[item.head] then
        here_[item.head] = true
        found[#found + 1] = item
      end
    end
  end
  name(found)
  for n, length in ipairs(lengths(found)) do
    local item = found[n]
    local row = {item.kind, num(item.order), length}
    for k = 1, #terms do
      local value = blocks[k][item.spot]
      local times = value and times_in(value, item.head)
      if times then row[#row + 1] = k - 1; row[#row + 1] = times end
    end
    found[n] = {table.concat(row, ' '), item.id, item.origin}
  end
  local items, length = searched(v)
  return {'ok', {items, length, totals, found}}
end
function ops.citing(given)
  local asked, found, ids = cjson.decode(given), {}, {}
  local low = asked.path and '[' .. piece(asked.path) or '-'
  local high = asked.path and low .. '\255' or '+'
  for _, member in ipairs(call('ZRANGEBYLEX', D, low, high)) do
    local parts, at = {}, 0
    for n = 1, 3 do
      local _, stop, size = member:find('^(%d+):', at + 1)
      at = stop + tonumber(size)
      parts[n] = member:sub(stop + 1, at)
    end
    local id = member:sub(at + 1)
    local meant = not asked.location or parts[2] == asked.location
    if meant and (not asked.blob or parts[3] == asked.blob) and not found[id] then
      found[id] = true
      ids[#ids + 1] = id
    end
  end
  return {'ok', ids}
end
"""
