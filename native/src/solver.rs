// SPDX-License-Identifier: GPL-3.0-or-later
//! Witnesses by propagation: a row A * B = C in which one wire is unknown and occurs linearly gives that wire.
//!
//! The order is found once for a circuit.  It proceeds by levels whose rows are independent; rows that divide by a value
//! wait until no row with a constant divisor is left, and share one inversion a level.

use crate::error::{Error, Result};
use crate::linear::Forms;
use crate::r1cs::R1cs;
use crate::witness::Assignment;
use crate::{bail, ensure};
use ark_bn254::Fr;
use ark_ff::{batch_inversion, AdditiveGroup, Field};
use rayon::prelude::*;

/// "The wire is not in this form."
const ABSENT: u32 = u32::MAX;
/// Levels below this size are not worth a second thread.
const PARALLEL: usize = 512;
/// Rows and wires named in an error.
const NAMED: usize = 5;

/// How the one unknown of a row occurs in it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Occurrence {
    /// In C only: its coefficient divides.
    Output,
    /// In A or B, the other factor being a constant: the divisor is a constant other than zero.
    Constant,
    /// In A or B: the divisor depends on values.
    Quotient,
    /// In A and B, or with a divisor that is always zero: the row does not determine it.
    Undetermined,
}

/// Row `row` gives `wire`; coefficient numbers of the wire in A, B, C.
#[derive(Clone, Copy)]
struct Step {
    row: u32,
    wire: u32,
    numbers: [u32; 3],
    divides: bool,
}

/// The order of solving.
pub struct Plan {
    steps: Vec<Step>,
    /// End of every level in `steps`.
    levels: Vec<u32>,
    /// Inverses of the circuit's coefficients.
    inverses: Vec<Fr>,
}

/// Rows of every wire, and how many wires of a row are unknown.
struct Frontier<'a> {
    system: &'a R1cs,
    starts: Vec<u32>,
    rows: Vec<u32>,
    unknown: Vec<u32>,
    /// XOR of a row's unknown wires: the wire itself once there is one.
    last: Vec<u32>,
    known: Vec<bool>,
}

impl<'a> Frontier<'a> {
    fn new(system: &'a R1cs, known: Vec<bool>) -> Self {
        let mut counts = vec![0u32; system.n_wires + 1];
        let mut mark = vec![u32::MAX; system.n_wires];
        let forms = [&system.a, &system.b, &system.c];
        let mut visit = |use_of: &mut dyn FnMut(u32, u32)| {
            mark.fill(u32::MAX);
            for row in 0..system.n_rows {
                for (wire, _) in forms.iter().flat_map(|f| f.row(row)) {
                    if std::mem::replace(&mut mark[wire as usize], row as u32) != row as u32 {
                        use_of(row as u32, wire);
                    }
                }
            }
        };
        visit(&mut |_, wire| counts[wire as usize + 1] += 1);
        for i in 0..system.n_wires {
            counts[i + 1] += counts[i];
        }
        let mut rows = vec![0u32; counts[system.n_wires] as usize];
        let mut next = counts.clone();
        let mut unknown = vec![0u32; system.n_rows];
        let mut last = vec![0u32; system.n_rows];
        visit(&mut |row, wire| {
            let at = &mut next[wire as usize];
            rows[*at as usize] = row;
            *at += 1;
            if !known[wire as usize] {
                unknown[row as usize] += 1;
                last[row as usize] ^= wire;
            }
        });
        Frontier {
            system,
            starts: counts,
            rows,
            unknown,
            last,
            known,
        }
    }

    /// Mark a wire as known and hand out the rows that have one unknown left.
    fn learn(&mut self, wire: u32, ready: &mut Vec<u32>) {
        self.known[wire as usize] = true;
        let range = self.starts[wire as usize] as usize..self.starts[wire as usize + 1] as usize;
        for &row in &self.rows[range] {
            let r = row as usize;
            self.unknown[r] -= 1;
            self.last[r] ^= wire;
            if self.unknown[r] == 1 {
                ready.push(row);
            }
        }
    }

    fn ready(&self) -> Vec<u32> {
        (0..self.system.n_rows as u32)
            .filter(|&row| self.unknown[row as usize] == 1)
            .collect()
    }

    /// The unknown of a row that has exactly one, and how it occurs.
    fn unknown_of(&self, row: u32) -> (u32, [u32; 3], Occurrence) {
        let (system, wire) = (self.system, self.last[row as usize]);
        let number = |f: &Forms| f.row(row as usize).find(|(w, _)| *w == wire).map_or(ABSENT, |(_, k)| k);
        let numbers = [number(&system.a), number(&system.b), number(&system.c)];
        let kind = match numbers {
            [ABSENT, ABSENT, _] => Occurrence::Output,
            [a, ABSENT, c] => self.factor(&system.b, row, a, c),
            [ABSENT, b, c] => self.factor(&system.a, row, b, c),
            _ => Occurrence::Undetermined,
        };
        (wire, numbers, kind)
    }

    /// The wire has coefficient `own` in one factor and `out` in C; is its divisor a constant?
    fn factor(&self, other: &Forms, row: u32, own: u32, out: u32) -> Occurrence {
        let values = &self.system.values;
        let mut constant = Fr::ZERO;
        for (wire, k) in other.row(row as usize) {
            if wire != 0 {
                return Occurrence::Quotient;
            }
            constant += values[k as usize];
        }
        let out = if out == ABSENT { Fr::ZERO } else { values[out as usize] };
        if out == values[own as usize] * constant {
            Occurrence::Undetermined
        } else {
            Occurrence::Constant
        }
    }
}

impl Plan {
    /// Order of solving from wire 0 and the inputs.
    pub fn new(system: &R1cs) -> Result<Plan> {
        let mut known = vec![false; system.n_wires];
        known[0] = true;
        known[system.inputs()].fill(true);
        let mut frontier = Frontier::new(system, known);
        let mut ready = frontier.ready();
        let mut waiting: Vec<u32> = Vec::new();
        let (mut steps, mut levels) = (Vec::new(), Vec::new());
        loop {
            let mut chosen: Vec<Step> = Vec::new();
            let quotients = ready.is_empty();
            for row in std::mem::take(if quotients { &mut waiting } else { &mut ready }) {
                if frontier.unknown[row as usize] != 1 {
                    continue;
                }
                let (wire, numbers, kind) = frontier.unknown_of(row);
                match kind {
                    Occurrence::Undetermined => {}
                    Occurrence::Quotient if !quotients => waiting.push(row),
                    _ => chosen.push(Step {
                        row,
                        wire,
                        numbers,
                        divides: kind != Occurrence::Output,
                    }),
                }
            }
            if chosen.is_empty() {
                if waiting.is_empty() {
                    break;
                }
                continue;
            }
            for step in chosen {
                // Two rows may give the same wire; the first one does.
                if !frontier.known[step.wire as usize] {
                    frontier.learn(step.wire, &mut ready);
                    steps.push(step);
                }
            }
            levels.push(steps.len() as u32);
        }
        frontier.complete()?;
        let mut inverses = system.values.clone();
        batch_inversion(&mut inverses);
        Ok(Plan {
            steps,
            levels,
            inverses,
        })
    }

    /// Values of all wires for packed inputs (public, then private, in wire order).
    pub fn solve(&self, system: &R1cs, inputs: &[Fr]) -> Result<Assignment> {
        ensure!(
            inputs.len() == system.inputs().len(),
            "{} inputs, the circuit has {}",
            inputs.len(),
            system.inputs().len()
        );
        let mut wires = Assignment(vec![Fr::ZERO; system.n_wires]);
        let values = &mut wires.0;
        values[0] = Fr::ONE;
        values[system.inputs()].copy_from_slice(inputs);
        let mut start = 0;
        for &end in &self.levels {
            let level = &self.steps[start..end as usize];
            start = end as usize;
            let now: &[Fr] = values;
            let parts = |s: &Step| self.fraction(system, s, now);
            let fractions: Vec<(Fr, Fr)> = if level.len() >= PARALLEL {
                level.par_iter().with_min_len(PARALLEL / 4).map(parts).collect()
            } else {
                level.iter().map(parts).collect()
            };
            let mut divisors: Vec<Fr> = level
                .iter()
                .zip(&fractions)
                .filter(|(s, _)| s.divides)
                .map(|(_, f)| f.1)
                .collect();
            if divisors.contains(&Fr::ZERO) {
                let zero = |(s, f): &(&Step, &(Fr, Fr))| s.divides && f.1 == Fr::ZERO;
                let (step, _) = level.iter().zip(&fractions).find(zero).expect("found above");
                bail!(
                    "constraint {} divides by zero for wire {}: the inputs satisfy no witness",
                    step.row,
                    step.wire
                );
            }
            batch_inversion(&mut divisors);
            let mut inverse = divisors.into_iter();
            for (step, (numerator, factor)) in level.iter().zip(fractions) {
                let factor = if step.divides {
                    inverse.next().expect("one for each division")
                } else {
                    factor
                };
                values[step.wire as usize] = numerator * factor;
            }
        }
        Ok(wires)
    }

    /// Numerator, and divisor (or its inverse where that is known).  The unknown itself still has the value 0.
    fn fraction(&self, system: &R1cs, step: &Step, wires: &[Fr]) -> (Fr, Fr) {
        let (row, coefs) = (step.row as usize, &system.values);
        let eval = |f: &Forms| f.eval(row, coefs, wires);
        let (a, b) = (eval(&system.a), eval(&system.b));
        let numerator = a * b - eval(&system.c);
        let coef = |k: u32| if k == ABSENT { Fr::ZERO } else { coefs[k as usize] };
        let [in_a, in_b, in_c] = step.numbers;
        if step.divides {
            (numerator, coef(in_c) - coef(in_a) * b - coef(in_b) * a)
        } else {
            (numerator, self.inverses[in_c as usize])
        }
    }
}

impl Frontier<'_> {
    /// Error that names rows and wires unless every wire that a row uses is known.
    fn complete(&self) -> Result<()> {
        let used = |w: usize| self.starts[w] < self.starts[w + 1];
        let open: Vec<usize> = (0..self.known.len()).filter(|&w| !self.known[w] && used(w)).collect();
        if open.is_empty() {
            return Ok(());
        }
        let rows: Vec<String> = (0..self.system.n_rows)
            .filter(|&r| self.unknown[r] > 0)
            .take(NAMED)
            .map(|r| r.to_string())
            .collect();
        let wires: Vec<String> = open.iter().take(NAMED).map(|w| w.to_string()).collect();
        Err(Error(format!(
            "{} wires cannot be solved by propagation, among them {}; constraints left: {} ...",
            open.len(),
            wires.join(", "),
            rows.join(", ")
        )))
    }
}

/// The determination test: wires that known ones fix through rows that are not skipped, constant divisors only.
pub fn propagate(system: &R1cs, known: &[u8], skip: &[u8]) -> Result<Vec<u8>> {
    ensure!(
        known.len() == system.n_wires && skip.len() == system.n_rows,
        "masks of {} wires and {} rows for a circuit with {} and {}",
        known.len(),
        skip.len(),
        system.n_wires,
        system.n_rows
    );
    let mut start: Vec<bool> = known.iter().map(|&k| k != 0).collect();
    start[0] = true;
    let mut frontier = Frontier::new(system, start);
    let mut ready = frontier.ready();
    while let Some(row) = ready.pop() {
        if skip[row as usize] != 0 || frontier.unknown[row as usize] != 1 {
            continue;
        }
        let (wire, _, kind) = frontier.unknown_of(row);
        if matches!(kind, Occurrence::Output | Occurrence::Constant) {
            frontier.learn(wire, &mut ready);
        }
    }
    Ok(frontier.known.iter().map(|&k| k.into()).collect())
}
