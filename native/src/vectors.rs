// SPDX-License-Identifier: GPL-3.0-or-later
//! The repository's vectors/ for what native code computes: points, Poseidon, proofs, and the mechanism.
//!
//! An output must come out as it stands there, and a failure must be refused.

use crate::curve::{Pt, G1};
use crate::decoys::Decoys;
use crate::encoding as enc;
use crate::error::{Error, Result};
use crate::noise::Noise;
use crate::poseidon::Parameters;
use crate::verify::{Proof, VerifyingKey};
use crate::{folding, generators, msm};
use ark_bn254::{g1::Config, Fr};
use ark_ff::PrimeField;
use serde_json::{json, Value};
use std::collections::BTreeMap;
use std::path::Path;

type Operation = fn(&Value) -> Result<Value>;

/// Every case of one file by its name, with the whole input of those that state what differs from another.
fn cases(file: &str) -> BTreeMap<String, Value> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../vectors/{file}.json"));
    let text = std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    let read: Value = serde_json::from_str(&text).unwrap_or_else(|e| panic!("{file}: {e}"));
    let mut found: BTreeMap<String, Value> = read["cases"]
        .as_array()
        .expect("cases")
        .iter()
        .map(|case| (case["name"].as_str().expect("a name").to_string(), case.clone()))
        .collect();
    let inputs: BTreeMap<String, Value> = found
        .iter()
        .map(|(name, case)| (name.clone(), case["input"].clone()))
        .collect();
    for case in found.values_mut() {
        if let Some(base) = case.get("base").and_then(Value::as_str) {
            let mut input = inputs[base].clone();
            for (at, value) in case["change"].as_object().expect("changes") {
                *input.pointer_mut(at).expect("a path of the base") = value.clone();
            }
            case["input"] = input;
        }
    }
    found
}

/// One case of how a retrieval is computed.
fn read(name: &str) -> Value {
    let found = cases("mechanism").remove(name);
    found.unwrap_or_else(|| panic!("no case {name}"))
}

/// Runs the vectors of one operation and says how many gave their output, and how many were refused.
fn run(file: &str, operation: &str, compute: Operation) -> (usize, usize) {
    let (mut given, mut refused) = (0, 0);
    for (name, case) in cases(file) {
        if case["operation"] != operation {
            continue;
        }
        match (compute(&case["input"]), case.get("expected"), case.get("claimed")) {
            (Ok(found), Some(output), _) => {
                for (key, value) in found.as_object().expect("an object") {
                    assert_eq!(value, &output[key], "{name}: {key}");
                }
                given += 1;
            }
            (Ok(found), None, Some(claimed)) => {
                for (key, value) in claimed.as_object().expect("an object") {
                    assert_ne!(value, &found[key], "{name}: {key}");
                }
                refused += 1;
            }
            (Err(_), None, None) => refused += 1,
            (Ok(_), ..) => panic!("{name}: not refused"),
            (Err(error), ..) => panic!("{name}: {}", error.0),
        }
    }
    (given, refused)
}

fn bytes(value: &Value) -> Vec<u8> {
    let text = value.as_str().expect("hexadecimal");
    (0..text.len() / 2)
        .map(|i| u8::from_str_radix(&text[2 * i..2 * i + 2], 16).expect("hexadecimal"))
        .collect()
}

fn hex(data: &[u8]) -> String {
    data.iter().map(|b| format!("{b:02x}")).collect()
}

fn small(value: &Value) -> usize {
    value.as_u64().expect("a small number") as usize
}

/// A field element: a JSON number, or decimal text.
fn element(value: &Value) -> Fr {
    let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    text.bytes().fold(Fr::from(0u64), |sum, digit| {
        sum * Fr::from(10u64) + Fr::from(u64::from(digit - b'0'))
    })
}

// --- points and Poseidon ---------------------------------------------------------------------------------------------

fn check_points(input: &Value) -> Result<Value> {
    enc::g1s_proper(&bytes(&input["points"]))?;
    Ok(json!({}))
}

fn sum(input: &Value) -> Result<Value> {
    let points = enc::g1s(&bytes(&input["points"]))?;
    let scalars = enc::scalars(&bytes(&input["scalars"]))?;
    if points.len() != scalars.len() {
        return Err(Error("points and scalars differ in number".into()));
    }
    let total = Pt::from_projective(&msm::msm::<Config>(&points, &scalars));
    Ok(json!({ "point": hex(&enc::g1_bytes(&total)) }))
}

fn make_generators(input: &Value) -> Result<Value> {
    let domain = input["domain"].as_str().expect("text");
    let made = generators::generators(domain.as_bytes(), small(&input["count"]) as u32);
    Ok(json!({ "points": hex(&enc::g1s_bytes(&made)) }))
}

fn fold_points(input: &Value) -> Result<Value> {
    let points: Vec<G1> = enc::g1s(&bytes(&input["points"]))?;
    let folded = folding::fold(&points, element(&input["u"]))?;
    Ok(json!({ "points": hex(&enc::g1s_bytes(&folded)) }))
}

fn permuted(mut state: Vec<Fr>) -> Result<Vec<Fr>> {
    Parameters::of(state.len())?.permute(&mut state);
    Ok(state)
}

fn hash(inputs: &[Fr]) -> Result<Fr> {
    Ok(permuted([&[Fr::from(0u64)], inputs].concat())?[0])
}

fn poseidon(input: &Value) -> Result<Value> {
    let found = hash(&enc::scalars(&bytes(&input["inputs"]))?)?;
    Ok(json!({ "hash": hex(&enc::scalar_bytes(&found)) }))
}

fn permutation(input: &Value) -> Result<Value> {
    let state = permuted(enc::scalars(&bytes(&input["state"]))?)?;
    Ok(json!({ "state": hex(&enc::scalars_bytes(&state)) }))
}

/// The halves of a seed, each below 2^128.
fn limbs(input: &Value) -> [Fr; 2] {
    let seed = bytes(&input["seed"]);
    [0, 16].map(|at| Fr::from_be_bytes_mod_order(&seed[at..at + 16]))
}

fn shown(x: Fr) -> Value {
    Value::String(x.into_bigint().to_string())
}

fn seed_commitment(input: &Value) -> Result<Value> {
    let [high, low] = limbs(input);
    Ok(json!({ "c_seed": shown(hash(&[Fr::from(1u64), high, low])?) }))
}

fn noise_key(input: &Value) -> Result<Value> {
    let [high, low] = limbs(input);
    let key = hash(&[
        Fr::from(2u64),
        high,
        low,
        element(&input["beacon"]),
        element(&input["ctx"]),
    ])?;
    Ok(json!({ "key": shown(key) }))
}

#[test]
fn points_and_sums() {
    assert_eq!(run("curve", "points", check_points), (1, 4));
    assert_eq!(run("curve", "msm", sum), (3, 2));
    assert_eq!(run("curve", "generators", make_generators), (2, 1));
    assert_eq!(run("curve", "fold-points", fold_points), (3, 0));
}

#[test]
fn poseidon_of_every_width() {
    assert_eq!(run("hashes", "poseidon", poseidon), (5, 2));
    assert_eq!(run("hashes", "poseidon-permutation", permutation), (16, 0));
    assert_eq!(run("mechanism", "seed-commitment", seed_commitment), (2, 1));
    assert_eq!(run("mechanism", "noise-key", noise_key), (2, 1));
}

// --- Groth16 ---------------------------------------------------------------------------------------------------------

fn verifying_key(input: &Value) -> Result<Value> {
    let key = VerifyingKey::decode(&bytes(&input["bytes"]))?;
    Ok(json!({ "public_inputs": key.n_public(), "digest": hex(&key.digest()) }))
}

fn groth16(input: &Value) -> Result<Value> {
    let key = VerifyingKey::decode(&bytes(&input["key"]))?;
    let clear = enc::scalars(&bytes(&input["clear"]))?;
    let commitments = enc::g1s_proper(&bytes(&input["commitments"]))?;
    key.verify(&Proof::decode(&bytes(&input["proof"]))?, &clear, &commitments)?;
    Ok(json!({}))
}

#[test]
fn keys_and_proofs() {
    assert_eq!(run("proofs", "verifying-key", verifying_key), (1, 8));
    assert_eq!(run("proofs", "groth16", groth16), (1, 11));
}

// --- the mechanism ---------------------------------------------------------------------------------------------------

/// The least value, and F(x - 1) of every value x from there on; the last, F(C), is 2^`width` and left out.
fn cumulative(law: &str, width: usize) -> (i64, Vec<u128>) {
    let packed = bytes(&read(&format!("noise-tables/{law}-masses"))["expected"]["half"]);
    let half: Vec<u128> = packed
        .chunks_exact(width / 8)
        .map(|b| b.iter().fold(0, |value, &byte| value << 8 | u128::from(byte)))
        .collect();
    let mut total = 0u128;
    let negative = half.len() - 1;
    let all = half[1..].iter().rev().chain(&half);
    let before = all.map(|p| {
        let before = total;
        total = total.wrapping_add(*p);
        before
    });
    (-(negative as i64), before.collect())
}

/// Q(k) of every k < 2^m.
fn quantiles(smallest: i64, before: &[u128], m: usize, width: usize) -> impl Iterator<Item = i64> + '_ {
    (1..=1u128 << m).map(move |k| {
        let uniform = (k << (width - m)).wrapping_sub(1); // of the last k of 128 bits the shift leaves 0
        before.partition_point(|&first| first <= uniform) as i64 - 1 + smallest
    })
}

/// Unclipped scores w.
fn scores(input: &Value) -> Vec<i64> {
    let w = input["w"].as_array().expect("scores");
    w.iter().map(|x| x.as_i64().expect("a score")).collect()
}

fn select_noise(input: &Value) -> Result<Value> {
    let cls = &input["class"];
    let grid = small(&read(&format!("select/{}", cls["name"].as_str().expect("a name")))["expected"]["grid"]);
    let [n, k, r, m, q, c, s] = ["N", "K", "R", "m", "q", "c", "S"].map(|name| small(&cls[name]));
    let (smallest, before) = cumulative(cls["law"].as_str().expect("a law"), 112);
    let bounds = quantiles(smallest, &before, m, 112).collect();
    let mut least = before[-smallest as usize..].to_vec();
    least.push(1 << 112);
    let shards = input["w"].as_array().expect("shards");
    let w: Vec<i64> = shards.iter().flat_map(|one| scores(&json!({"w": one}))).collect();
    let steps = input["hmax"].as_i64().expect("H");
    let engine = Noise::new([n, k, r, m, q, c, 112, s], bounds, least, grid)?;
    let found = engine.select(element(&input["key"]), &w, steps)?;
    let (ids, flags): (Vec<usize>, Vec<bool>) = found.returned.into_iter().unzip();
    let (entries, thetas): (Vec<i64>, Vec<usize>) = found.limits.into_iter().unzip();
    Ok(json!({
        "entries": entries, "thetas": thetas, "threshold": found.threshold, "threshold_slot": found.threshold_slot,
        "ids": ids, "flags": flags,
    }))
}

/// Decimal text, or a JSON number.
fn wide_number(value: &Value) -> u128 {
    let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    text.parse().expect("a number of 128 bits")
}

/// F(0) .. F(draws), from the table of the rate, which is another case's.
fn rows(input: &Value, draws: usize) -> Result<Vec<u128>> {
    let rate = &input["decoy_rate"];
    let tables = cases("mechanism");
    let found = tables
        .values()
        .find(|one| one["input"]["decoy_rate"] == *rate && one["input"]["id_bits"] == 6)
        .expect("a table");
    let mut rows: Vec<u128> = found["expected"]["rows"]
        .as_array()
        .expect("rows")
        .iter()
        .map(wide_number)
        .collect();
    if rows.len() > draws + 1 {
        return Err(Error("more draws than the class has".into()));
    }
    rows.resize(draws + 1, 1 << small(&found["expected"]["bits"]));
    Ok(rows)
}

fn select_decoys(input: &Value) -> Result<Value> {
    let shape = ["N", "draws", "room", "c", "chunks", "S"].map(|name| small(&input["class"][name]));
    let shards = input["y"].as_array().expect("shards");
    let w = shards.iter().flat_map(|one| scores(&json!({"w": one})));
    let y: Vec<i32> = w.map(|x| i32::try_from(x).expect("a score")).collect();
    let engine = Decoys::new(shape, rows(input, shape[1])?)?;
    let draws = engine.draw(element(&input["key"]), shards.len())?;
    let lo = input["lo"].as_i64().expect("lo");
    let found = engine.select(draws, &y, lo, small(&input["ids"]))?;
    let (threshold, threshold_slot) = engine.threshold(&found, &y);
    let (ids, flags): (Vec<usize>, Vec<bool>) = found.returned.into_iter().unzip();
    Ok(json!({
        "threshold": threshold, "threshold_slot": threshold_slot, "ids": ids, "flags": flags, "short": found.short,
        "over": found.over,
    }))
}

#[test]
fn answers_of_the_mechanism() {
    assert_eq!(run("mechanism", "select-decoys", select_decoys), (10, 6));
    assert_eq!(run("mechanism", "select-noise", select_noise), (12, 4));
}
