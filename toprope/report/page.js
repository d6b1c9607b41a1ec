const $=id=>document.getElementById(id), colour=D.colours, S=D.summary;
const esc=t=>String(t).replace(/[&<>"]/g,c=>({"&":"&amp;","<":"&lt;",">":"&gt;",'"':"&quot;"}[c]));
const percent=v=>Math.round(100*v)+" %", base=f=>f.split("/").pop();
const size=b=>b>=1e9?(b/1e9).toFixed(2)+" GB":b>=1e6?(b/1e6).toFixed(1)+" MB":b>=1e3?(b/1e3).toFixed(1)+" kB":Math.round(b)+" B";
const kib=b=>(b/1024).toFixed(b<10240?1:0)+" KB";

// -- head
const mistakes=S.findings.filter(f=>f.severity!="advice"), advice=S.findings.filter(f=>f.severity=="advice").sort((a,b)=>b.saves_us-a.saves_us);
const errors=mistakes.filter(f=>f.severity=="error").length, names=Object.keys(S.verdicts);
$("title").textContent=S.kernel+" on "+S.soc;
$("sub").textContent=`${S.blocks} block${S.blocks>1?"s":""}, ${D.core_count} core${D.core_count>1?"s":""}, ${S.instructions.toLocaleString()} instructions. ${S.bottleneck}.`;
const verdict=names.length?(S.passed?'<span class="good">agrees</span>':'<span class="bad">differs</span>'):'<span class="sub">no reference</span>';
const open=D.checks.filter(c=>c[1]=="not").length;
$("cards").innerHTML=[
 ["time",S.microseconds.toFixed(2)+" µs",`predicted; ${S.band.low_us.toPrecision(3)}–${S.band.high_us.toPrecision(3)} µs on the device `+(S.band.known?`(80 % of published times of this kind, ${S.band.kind})`:`(no published time of this kind, ${S.band.kind})`)],
 ["result",verdict,names.join(", ")||"give one with --reference"],
 ["mistakes",errors?`<span class="bad">${errors} error${errors>1?"s":""}</span>`:'<span class="good">no error</span>',mistakes.length-errors+(mistakes.length-errors==1?" warning":" warnings")],
 ["advice",advice.length?"up to "+percent(advice[0].saves_us/S.microseconds):"none",`${open} of ${D.checks.length} checks open`],
 ["trust",percent(1-S.assumed_share),"of the cycles rest on documented, measured or derived numbers"]]
 .map(c=>`<div class="card"><div class="sub">${c[0]}</div><div class="big">${c[1]}</div><div class="sub">${esc(c[2])}</div></div>`).join("");
$("bars").innerHTML=Object.entries(S.busy).sort((a,b)=>b[1]-a[1])
 .map(([p,v])=>`<div class="bar"><b>${p}</b><i style="width:${100*Math.min(1,v)}%;background:${colour[p]}"></i><span>${percent(v)}</span></div>${waits(p)}`).join("");
function waits(p){const told=Object.entries(S.waits[p]||{}).filter(w=>w[1]>=.05).slice(0,3);
 return told.length?`<div class="sub waits">waits: ${told.map(([r,v])=>esc(r)+" "+percent(v)).join(", ")}</div>`:""}

// -- bounds: the triangle of compute, bandwidth and parallelism, and the roofline
function triangle(){
 const B=D.bound.shares, R=70, C=[110,96], at=(k,r)=>{const a=-Math.PI/2+k*2*Math.PI/3;return [C[0]+r*Math.cos(a),C[1]+r*Math.sin(a)]};
 const keys=["compute","bandwidth","parallelism"], ring=r=>keys.map((_,k)=>at(k,r).map(v=>v.toFixed(1)).join(",")).join(" ");
 const shape=keys.map((n,k)=>at(k,R*Math.min(1,Math.max(.01,B[n]))).map(v=>v.toFixed(1)).join(",")).join(" ");
 const label=[[110,14,"middle"],[216,152,"end"],[4,152,"start"]];
 return `<svg viewBox="0 0 220 172" role="img" aria-label="compute, bandwidth, parallelism">${[.25,.5,.75,1].map(f=>`<polygon class="rule" points="${ring(R*f)}"/>`).join("")}
<polygon points="${shape}" fill="var(--accent)" fill-opacity=".3" stroke="var(--accent)" stroke-width="1.5"/>
${keys.map((n,k)=>`<text class="axis" x="${label[k][0]}" y="${label[k][1]}" text-anchor="${label[k][2]}">${n} ${percent(B[n])}</text>`).join("")}</svg>`}
function roof(){
 const b=D.bound;if(!b.peak_tops||!b.intensity)return "";
 const ridge=b.peak_tops/b.tbps, lx=v=>Math.log10(v), x0=Math.min(lx(b.intensity),lx(ridge))-1, x1=Math.max(lx(b.intensity),lx(ridge))+1;
 const y1=lx(b.peak_tops)+.4, y0=Math.min(lx(b.reached_tops),lx(b.tbps)+x0)-.3;
 const X=v=>34+(lx(v)-x0)/(x1-x0)*180, Y=v=>140-(lx(v)-y0)/(y1-y0)*124, low=10**x0, high=10**x1;
 const number=v=>v>=100?Math.round(v):v>=1?v.toFixed(1):v.toPrecision(2);
 return `<svg viewBox="0 0 220 172" role="img" aria-label="roofline"><path class="rule" d="M34 10V140H216"/>
<path d="M${X(low)} ${Y(low*b.tbps)}L${X(ridge)} ${Y(b.peak_tops)}H${X(high)}" fill="none" stroke="var(--dim)" stroke-width="1.5"/>
<line x1="${X(b.intensity)}" x2="${X(b.intensity)}" y1="${Y(Math.min(b.peak_tops,b.tbps*b.intensity))}" y2="${Y(b.reached_tops)}" stroke="var(--accent)" stroke-dasharray="2 3"/>
<circle cx="${X(b.intensity)}" cy="${Y(b.reached_tops)}" r="4" fill="var(--accent)"/>
<text class="axis" x="${X(high)}" y="${Y(b.peak_tops)-5}" text-anchor="end">${number(b.peak_tops)} Tops/s</text>
<text class="axis" x="${X(b.intensity)+(lx(b.intensity)<(x0+x1)/2?7:-7)}" y="${Y(b.reached_tops)+4}" text-anchor="${lx(b.intensity)<(x0+x1)/2?"start":"end"}">${number(b.reached_tops)}</text>
<text class="axis" x="216" y="155" text-anchor="end">${number(b.intensity)} operations per byte</text></svg>`}
$("bound").innerHTML=triangle()+roof()+`<div style="grid-column:1/-1">nearest limit: <b>${D.bound.bound}</b> <div class="sub">a corner of the triangle is all the chip has: arithmetic, HBM's ${D.bound.tbps} TB/s, evenly busy cores</div></div>`;

// -- traffic
const T=D.traffic, most=Math.max(1,T.hbm_read_bytes,T.hbm_write_bytes,T.l2_read_bytes,T.l2_write_bytes);
const rate=b=>S.microseconds?(b/S.microseconds/1e3).toFixed(0)+" GB/s":"";
$("traffic").innerHTML=[["L2 read",T.l2_read_bytes],["L2 written",T.l2_write_bytes],["HBM read",T.hbm_read_bytes],["HBM written",T.hbm_write_bytes]]
 .map(([n,b])=>`<div class="bar long"><b>${n}</b><i style="width:${100*b/most}%"></i><span>${size(b)}, ${rate(b)}</span></div>`).join("")
 +`<div class="sub" style="margin-top:8px">${percent(T.l2_read_bytes?1-T.hbm_read_bytes/T.l2_read_bytes:0)} of what the cores read was in L2.
 HBM gives ${T.hbm_gbps.toFixed(0)} GB/s.</div>`;

// -- lists
const place=p=>base(p.file)+":"+p.line+"  "+(p.op||"")+"  "+(p.pipe?"pipe "+p.pipe:"")+"  "+(p.action||"");
const found=f=>`<div class="find ${f.severity}"><code>${esc(f.code)}</code> ${esc(f.message)}${f.count>1?` <span class="sub">(${f.count} times)</span>`:""}
${f.places.length?`<pre>${f.places.map(p=>esc(place(p))).join("\n")}</pre>`:""}${f.cure?`<div class="sub">cure: ${esc(f.cure)}</div>`:""}</div>`;
$("mistakes").innerHTML=mistakes.map(found).join("")||'<div class="card good">none found</div>';
$("advice").innerHTML=advice.map(found).join("")||'<div class="card">nothing that would gain 2 % or more</div>';
const word={ok:'<span class="good">✓ ok</span>',not:'<span class="warn">✗ open</span>',"n/a":'<span class="sub">– n/a</span>'};
$("checks").innerHTML=D.checks.map(([n,s,f])=>`<tr><td>${word[s]}</td><td>${esc(n)}</td><td class="sub">${esc(f)}</td></tr>`).join("");

// -- block balance: a column per core
(()=>{const rows=D.balance, end=Math.max(1e-9,...rows.map(r=>r[3])), W=620, H=190, w=(W-46)/Math.max(rows.length,8), Y=t=>10+(1-t/end)*(H-34);
 $("balance").innerHTML=`<svg viewBox="0 0 ${W} ${H}" role="img" aria-label="time of each core">`
 +[0,.5,1].map(f=>`<path class="rule" d="M40 ${Y(f*end)}H${W}"/><text class="axis" x="36" y="${Y(f*end)+4}" text-anchor="end">${(f*end).toFixed(end<10?1:0)}</text>`).join("")
 +rows.map(([n,t,a,b,p,busy],i)=>{const x=42+i*w,pw=Math.max(1,w*.78);return `<g><title>${n}: ${a} to ${b} µs, ${p} busy ${busy} µs</title>
<rect x="${x}" y="${Y(b)}" width="${pw}" height="${Math.max(.5,Y(a)-Y(b))}" fill="${colour[p]}" opacity=".3"/><rect x="${x}" y="${Y(a+busy)}" width="${pw}" height="${Math.max(.5,Y(a)-Y(a+busy))}" fill="${colour[p]}"/></g>`}).join("")
 +`<text class="axis" x="42" y="${H-4}">${esc(rows.length?rows[0][0]:"")}</text><text class="axis" x="${42+rows.length*w}" y="${H-4}" text-anchor="end">${rows.length*w>200?esc(rows[rows.length-1][0]):""}</text></svg>
<div class="sub">µs; ${[...new Set(rows.map(r=>r[4]))].map(p=>`<b style="color:${colour[p]}">■</b> ${p}`).join(" ")}</div>`})();

// -- memories over time: a step curve each
$("memory").innerHTML=D.memory.map(m=>{const W=620,H=64,X=t=>t/S.microseconds*W,Y=b=>H-2-b/m.capacity*(H-6);let d=`M0 ${H-2}`,last=0;
 for(const [t,b] of m.steps){d+=`H${X(t).toFixed(1)}V${Y(b).toFixed(1)}`;last=b}
 return `<div><b>${m.space.toUpperCase()}</b> <span class="sub">${m.core}: at most ${kib(m.peak)} in use, ${kib(m.reserved)} given to buffers, of ${kib(m.capacity)}</span>
<svg viewBox="0 0 ${W} ${H}" preserveAspectRatio="none" style="width:100%;height:${H}px;display:block" role="img" aria-label="${m.space} in use"><path class="rule" d="M0 4H${W}M0 ${H-2}H${W}"/>
<path d="${d}H${W}V${H-2}Z" fill="var(--accent)" fill-opacity=".35" stroke="var(--accent)" vector-effect="non-scaling-stroke"/></svg>
<div class="sub" style="margin-bottom:10px">${m.queues.map(q=>`${esc(q[0])} ${q[1]} × ${kib(q[2])}, in use ${percent(q[3])}`).join("; ")}</div></div>`}).join("")||'<span class="sub">no buffers of a TPipe</span>';

// -- source with cost
const cost={};
for(const l of S.lines){const k=l.file+":"+l.line;(cost[k]=cost[k]||{us:0,n:0});cost[k].us+=l.microseconds;cost[k].n+=l.count}
const top=Math.max(1e-9,...Object.values(cost).map(c=>c.us)), at={}, sel=$("file");
for(const f of S.findings)for(const p of f.places)(at[p.file+":"+p.line]=at[p.file+":"+p.line]||new Set()).add(f);
D.files.forEach((f,i)=>sel.add(new Option(base(f),i)));
function source(){const f=D.files[sel.value];$("src").innerHTML=(D.sources[f]||[]).map((t,i)=>{const k=f+":"+(i+1),c=cost[k],fs=[...(at[k]||[])];
 return `<tr class="${fs.some(x=>x.severity=="error")?"error":""}"><td class="n">${i+1}</td><td class="c">${c?`<i style="width:${100*c.us/top}%"></i>${c.us.toFixed(2)} µs  ×${c.n}`:""}</td><td>${esc(t)}</td></tr>`+
 (fs.length?`<tr class="note"><td></td><td></td><td>${fs.map(x=>`<div class="${x.severity}">${esc(x.code+": "+x.message)}</div>`).join("")}</td></tr>`:"")}).join("")}
sel.onchange=source;if(D.files.length)source();
