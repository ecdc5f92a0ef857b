-- The load of `make bench`: each request is the next agent's, with its own key, session and arguments.
-- Every answer is looked at: one that is not a result is counted, and fails the benchmark. A table may say by which text
-- a result is known (`good`), and which text of its bodies a number takes the place of that no other request has (`fresh`).
-- A row is a path, fields, a body, and the method where that is not POST.

local rows = dofile(os.getenv("BENCH_TABLE"))
local requests, pieces, threads = {}, {}, {}
local good = rows.good or '"result"'
local sent = 0
local next_row = 1
wrong = 0
-- Runs of the tool have numbers of their own.
local started = os.time() * 1000000

function setup(thread)
  table.insert(threads, thread)
end

function init(_)
  for i, row in ipairs(rows) do
    requests[i] = wrk.format(row[4] or "POST", row[1], row[2], row[3])
    pieces[i] = rows.fresh and cut(requests[i], rows.fresh)
  end
end

-- The texts between the places of a mark; nothing where it has none.
function cut(text, mark)
  local all, from = {}, 1
  while true do
    local first, last = text:find(mark, from, true)
    if not first then break end
    table.insert(all, text:sub(from, first - 1))
    from = last + 1
  end
  if #all == 0 then return nil end
  table.insert(all, text:sub(from))
  return all
end

function request()
  local request, parts = requests[next_row], pieces[next_row]
  next_row = next_row % #requests + 1
  if not parts then return request end
  sent = sent + 1
  -- In letters: no scanner takes them for the number of something.
  local number = string.format("%012d", (started + sent) % 1e12)
  return table.concat(parts, (number:gsub("%d", function(digit) return string.char(97 + digit) end)))
end

function response(status, _, body)
  if status ~= 200 or not body:find(good, 1, true) then wrong = wrong + 1 end
end

function done(_, latency, _)
  local total = 0
  for _, thread in ipairs(threads) do total = total + thread:get("wrong") end
  print("wrong answers: " .. total)
  print(string.format("latency us: p50 %d p99 %d", latency:percentile(50), latency:percentile(99)))
end
