-- The load of `make bench`: each request is the next agent's, with its own key, session and arguments.
-- Every answer is looked at: one that is not a result is counted, and fails the benchmark.

local rows = dofile(os.getenv("BENCH_TABLE"))
local requests, threads = {}, {}
local next_row = 1
wrong = 0

function setup(thread)
  table.insert(threads, thread)
end

function init(_)
  for i, row in ipairs(rows) do
    requests[i] = wrk.format("POST", row[1], row[2], row[3])
  end
end

function request()
  local request = requests[next_row]
  next_row = next_row % #requests + 1
  return request
end

function response(status, _, body)
  if status ~= 200 or not body:find('"result"', 1, true) then wrong = wrong + 1 end
end

function done(_, latency, _)
  local total = 0
  for _, thread in ipairs(threads) do total = total + thread:get("wrong") end
  print("wrong answers: " .. total)
  print(string.format("latency us: p50 %d p99 %d", latency:percentile(50), latency:percentile(99)))
end
