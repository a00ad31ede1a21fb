// SPDX-License-Identifier: GPL-3.0-or-later
//! snarkjs' JSON files: verification_key.json, proof.json, public.json.  Numbers are canonical decimal strings.

use crate::curve::{Pt, G1, G2};
use crate::ensure;
use crate::error::{Error, Result};
use crate::verify::{Proof, VerifyingKey};
use ark_bn254::{Fq, Fq2, Fr};
use ark_ff::{BigInt, Field, PrimeField};
use serde_json::{json, Map, Value};

const MAX_JSON: usize = 1 << 32;

fn number<F: PrimeField<BigInt = BigInt<4>>>(v: &Value) -> Result<F> {
    let text = v.as_str().ok_or_else(|| Error("a number is not a string".into()))?;
    let plain = !text.is_empty()
        && text.len() <= 78
        && text.bytes().all(|b| b.is_ascii_digit())
        && (text.len() == 1 || !text.starts_with('0'));
    ensure!(plain, "a number is not written as a plain decimal");
    // 78 digits may exceed 256 bits: the field decides by comparing the text again.
    let value = F::from_str(text).map_err(|_| Error("a number cannot be read".into()))?;
    ensure!(
        value.into_bigint().to_string() == text,
        "a number is not smaller than the modulus"
    );
    Ok(value)
}

fn list<'a>(v: &'a Value, what: &str) -> Result<&'a Vec<Value>> {
    v.as_array().ok_or_else(|| Error(format!("{what} is not a list")))
}

fn g1(v: &Value, what: &str) -> Result<G1> {
    let [x, y, z] = &list(v, what)?[..] else {
        return Err(Error(format!("{what} does not have three coordinates")));
    };
    ensure!(number::<Fq>(z)? == Fq::ONE, "{what} is not affine");
    let p = Pt {
        x: number(x)?,
        y: number(y)?,
    };
    ensure!(
        !p.is_identity() && p.on_curve(),
        "{what} is not a proper point of the curve"
    );
    Ok(p)
}

fn pair(v: &Value, what: &str) -> Result<Fq2> {
    let [c0, c1] = &list(v, what)?[..] else {
        return Err(Error(format!("{what} has a coordinate that is no pair")));
    };
    Ok(Fq2::new(number(c0)?, number(c1)?))
}

fn g2(v: &Value, what: &str) -> Result<G2> {
    let [x, y, z] = &list(v, what)?[..] else {
        return Err(Error(format!("{what} does not have three coordinates")));
    };
    ensure!(pair(z, what)? == Fq2::ONE, "{what} is not affine");
    let p = Pt {
        x: pair(x, what)?,
        y: pair(y, what)?,
    };
    p.check_g2().map_err(|e| Error(format!("{what}: {e}")))?;
    Ok(p)
}

fn text<F: PrimeField>(x: &F) -> String {
    x.into_bigint().to_string()
}

fn g1_json(p: &G1) -> Value {
    json!([text(&p.x), text(&p.y), "1"])
}

fn g2_json(p: &G2) -> Value {
    json!([
        [text(&p.x.c0), text(&p.x.c1)],
        [text(&p.y.c0), text(&p.y.c1)],
        ["1", "0"]
    ])
}

fn object(source: &str) -> Result<Map<String, Value>> {
    ensure!(source.len() <= MAX_JSON, "the JSON text is too long");
    let value: Value = serde_json::from_str(source).map_err(|e| Error(format!("not JSON: {e}")))?;
    let Value::Object(map) = value else {
        return Err(Error("not a JSON object".into()));
    };
    let is = |key: &str, want: &[&str]| map.get(key).and_then(Value::as_str).is_some_and(|v| want.contains(&v));
    ensure!(is("protocol", &["groth16"]), "not a Groth16 object");
    ensure!(is("curve", &["bn128", "bn254"]), "the curve is not BN254");
    Ok(map)
}

fn field<'a>(map: &'a Map<String, Value>, key: &str) -> Result<&'a Value> {
    map.get(key).ok_or_else(|| Error(format!("{key} is missing")))
}

pub fn key_to_json(key: &VerifyingKey) -> String {
    json!({
        "protocol": "groth16",
        "curve": "bn128",
        "nPublic": key.n_public(),
        "vk_alpha_1": g1_json(&key.alpha1),
        "vk_beta_2": g2_json(&key.beta2),
        "vk_gamma_2": g2_json(&key.gamma2),
        "vk_delta_2": g2_json(&key.delta2),
        "IC": key.ic.iter().map(g1_json).collect::<Vec<_>>(),
    })
    .to_string()
}

pub fn key_from_json(source: &str) -> Result<VerifyingKey> {
    let map = object(source)?;
    let ic = list(field(&map, "IC")?, "IC")?
        .iter()
        .map(|v| g1(v, "an IC point"))
        .collect::<Result<Vec<_>>>()?;
    ensure!(
        field(&map, "nPublic")?.as_u64() == Some((ic.len() as u64).wrapping_sub(1)),
        "nPublic does not match the number of IC points"
    );
    VerifyingKey::new(
        g1(field(&map, "vk_alpha_1")?, "vk_alpha_1")?,
        g2(field(&map, "vk_beta_2")?, "vk_beta_2")?,
        g2(field(&map, "vk_gamma_2")?, "vk_gamma_2")?,
        g2(field(&map, "vk_delta_2")?, "vk_delta_2")?,
        ic,
    )
}

pub fn proof_to_json(proof: &Proof) -> String {
    json!({
        "pi_a": g1_json(&proof.a),
        "pi_b": g2_json(&proof.b),
        "pi_c": g1_json(&proof.c),
        "protocol": "groth16",
        "curve": "bn128",
    })
    .to_string()
}

pub fn proof_from_json(source: &str) -> Result<Proof> {
    let map = object(source)?;
    Ok(Proof {
        a: g1(field(&map, "pi_a")?, "pi_a")?,
        b: g2(field(&map, "pi_b")?, "pi_b")?,
        c: g1(field(&map, "pi_c")?, "pi_c")?,
    })
}

pub fn public_to_json(values: &[Fr]) -> String {
    json!(values.iter().map(text).collect::<Vec<_>>()).to_string()
}

pub fn public_from_json(source: &str) -> Result<Vec<Fr>> {
    ensure!(source.len() <= MAX_JSON, "the JSON text is too long");
    let value: Value = serde_json::from_str(source).map_err(|e| Error(format!("not JSON: {e}")))?;
    list(&value, "public.json")?.iter().map(number).collect()
}
