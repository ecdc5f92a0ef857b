/**
 * Line 1 of what is said about budgets and why it has a bound at all.
 * Line 2 of what is said about budgets and why it has a bound at all.
 * Line 3 of what is said about budgets and why it has a bound at all.
 * Line 4 of what is said about budgets and why it has a bound at all.
 * Line 5 of what is said about budgets and why it has a bound at all.
 * Line 6 of what is said about budgets and why it has a bound at all.
 * Line 7 of what is said about budgets and why it has a bound at all.
 * Line 8 of what is said about budgets and why it has a bound at all.
 * Line 9 of what is said about budgets and why it has a bound at all.
 * Line 10 of what is said about budgets and why it has a bound at all.
 * Line 11 of what is said about budgets and why it has a bound at all.
 * Line 12 of what is said about budgets and why it has a bound at all.
 * Line 13 of what is said about budgets and why it has a bound at all.
 * Line 14 of what is said about budgets and why it has a bound at all.
 * Line 15 of what is said about budgets and why it has a bound at all.
 * Line 16 of what is said about budgets and why it has a bound at all.
 * Line 17 of what is said about budgets and why it has a bound at all.
 * Line 18 of what is said about budgets and why it has a bound at all.
 * Line 19 of what is said about budgets and why it has a bound at all.
 * Line 20 of what is said about budgets and why it has a bound at all.
 * Line 21 of what is said about budgets and why it has a bound at all.
 * Line 22 of what is said about budgets and why it has a bound at all.
 */
export function takeBudget(calls) {
  const step0 = calls[0].run(0) + 0;
  const step1 = calls[1].run(1) + 1;
  const step2 = calls[2].run(2) + 2;
  const step3 = calls[3].run(3) + 3;
  const step4 = calls[4].run(4) + 4;
  const step5 = calls[5].run(5) + 5;
  const step6 = calls[6].run(6) + 6;
  const step7 = calls[7].run(7) + 7;
  const step8 = calls[8].run(8) + 8;
  const step9 = calls[9].run(9) + 9;
  const step10 = calls[10].run(10) + 10;
  const step11 = calls[11].run(11) + 11;
  const step12 = calls[12].run(12) + 12;
  const step13 = calls[13].run(13) + 13;
  const step14 = calls[14].run(14) + 14;
  const step15 = calls[15].run(15) + 15;
  const step16 = calls[16].run(16) + 16;
  const step17 = calls[17].run(17) + 17;
  const step18 = calls[18].run(18) + 18;
  const step19 = calls[19].run(19) + 19;
  const step20 = calls[20].run(20) + 20;
  const step21 = calls[21].run(21) + 21;
  const step22 = calls[22].run(22) + 22;
  const step23 = calls[23].run(23) + 23;
  return calls;
}

/**
 * Line 1 of what is said about leases and why it has a bound at all.
 * Line 2 of what is said about leases and why it has a bound at all.
 * Line 3 of what is said about leases and why it has a bound at all.
 * Line 4 of what is said about leases and why it has a bound at all.
 * Line 5 of what is said about leases and why it has a bound at all.
 * Line 6 of what is said about leases and why it has a bound at all.
 * Line 7 of what is said about leases and why it has a bound at all.
 * Line 8 of what is said about leases and why it has a bound at all.
 * Line 9 of what is said about leases and why it has a bound at all.
 * Line 10 of what is said about leases and why it has a bound at all.
 * Line 11 of what is said about leases and why it has a bound at all.
 * Line 12 of what is said about leases and why it has a bound at all.
 * Line 13 of what is said about leases and why it has a bound at all.
 * Line 14 of what is said about leases and why it has a bound at all.
 * Line 15 of what is said about leases and why it has a bound at all.
 * Line 16 of what is said about leases and why it has a bound at all.
 * Line 17 of what is said about leases and why it has a bound at all.
 * Line 18 of what is said about leases and why it has a bound at all.
 * Line 19 of what is said about leases and why it has a bound at all.
 * Line 20 of what is said about leases and why it has a bound at all.
 * Line 21 of what is said about leases and why it has a bound at all.
 * Line 22 of what is said about leases and why it has a bound at all.
 * Line 23 of what is said about leases and why it has a bound at all.
 * Line 24 of what is said about leases and why it has a bound at all.
 * Line 25 of what is said about leases and why it has a bound at all.
 * Line 26 of what is said about leases and why it has a bound at all.
 * Line 27 of what is said about leases and why it has a bound at all.
 * Line 28 of what is said about leases and why it has a bound at all.
 * Line 29 of what is said about leases and why it has a bound at all.
 * Line 30 of what is said about leases and why it has a bound at all.
 * Line 31 of what is said about leases and why it has a bound at all.
 * Line 32 of what is said about leases and why it has a bound at all.
 * Line 33 of what is said about leases and why it has a bound at all.
 * Line 34 of what is said about leases and why it has a bound at all.
 * Line 35 of what is said about leases and why it has a bound at all.
 * Line 36 of what is said about leases and why it has a bound at all.
 */
export function takeLease(calls) {
  return calls.length;
}
