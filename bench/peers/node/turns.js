// Callbacks and timers of Node: node turns.js SECONDS TIMERS
// Prints one flat JSON object, with the keys of `spindle bench --json`.
'use strict';
const seconds = Number(process.argv[2]);
const timers = Number(process.argv[3]);
const LOT = 1000; // callbacks or timers made in one turn

const nothing = () => {};
const now = () => Number(process.hrtime.bigint()) / 1e9;

// rate calls eachTurn once per turn for the given seconds. Each call does lot units of
// work. schedule queues the next turn.
function rate(schedule, lot, eachTurn) {
  return new Promise((resolve) => {
    let count = 0;
    const start = now();
    const turn = () => {
      const elapsed = now() - start;
      if (elapsed >= seconds) return resolve(count / elapsed);
      eachTurn();
      count += lot;
      schedule(turn);
    };
    schedule(turn);
  });
}

function many(schedule) {
  return () => {
    for (let i = 0; i < LOT; i++) schedule(nothing);
  };
}

const handles = new Array(LOT);
function cancels() {
  for (let i = 0; i < LOT; i++) handles[i] = setTimeout(nothing, 1000 + (i % 50));
  for (let i = 0; i < LOT; i++) clearTimeout(handles[i]);
}

function fires() {
  return new Promise((resolve) => {
    let remaining = timers;
    const delays = Uint8Array.from({ length: timers }, () => Math.floor(Math.random() * 50));
    const start = now();
    const fire = () => {
      if (--remaining === 0) resolve(timers / (now() - start));
    };
    for (let i = 0; i < timers; i++) setTimeout(fire, delays[i]);
  });
}

async function main() {
  const figures = {
    callbacks_per_s: await rate(setImmediate, LOT, many(setImmediate)),
    turns_per_s: await rate(setImmediate, 1, nothing),
    nexttick_per_s: await rate(process.nextTick, LOT, many(process.nextTick)),
    timer_cancel_per_s: await rate(setImmediate, LOT, cancels),
    timer_fire_per_s: await fires(),
  };
  console.log(JSON.stringify(figures));
}

main();
