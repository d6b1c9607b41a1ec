// -- the pipeline: a row per core and pipe; only what is visible is drawn
const cv=$("tl"),cx=cv.getContext("2d"),used=D.cores.map(c=>[...new Set(c.events.map(e=>e[2]))].sort());
const rows=[];D.cores.forEach((c,i)=>used[i].forEach(p=>rows.push([i,p])));const H=14,PAD=150;
const total=Math.max(...D.cores.map(c=>c.events.reduce((m,e)=>Math.max(m,e[0]+e[1]),0)),1e-6);let v0=0,v1=total;
const rowOf={};rows.forEach((r,i)=>rowOf[r[0]+":"+r[1]]=i);
function draw(){const w=cv.clientWidth,h=Math.min(900,rows.length*H+24),r=devicePixelRatio||1;cv.style.height=h+"px";cv.width=w*r;cv.height=h*r;cx.setTransform(r,0,0,r,0,0);
 cx.clearRect(0,0,w,h);const fg=getComputedStyle(document.body).color;cx.font="10px system-ui";cx.fillStyle=fg;const X=t=>PAD+(t-v0)/(v1-v0)*(w-PAD);
 rows.forEach((row,i)=>{if((i+1)*H>h-20)return;cx.globalAlpha=.75;cx.fillStyle=fg;cx.fillText((i==0||rows[i-1][0]!=row[0]?D.cores[row[0]].name:"")+"",4,i*H+H-3);cx.fillText(D.pipes[row[1]],PAD-34,i*H+H-3);cx.globalAlpha=1});
 D.cores.forEach((c,i)=>{let last={};for(const e of c.events){const x0=X(e[0]),x1=X(e[0]+e[1]);if(x1<PAD||x0>w)continue;const y=rowOf[i+":"+e[2]]*H;if(y+H>h-20)continue;
  const px=Math.max(PAD,x0),pw=Math.max(.6,Math.min(w,x1)-px);if(last[e[2]]!==undefined&&px+pw-last[e[2]]<.5)continue;last[e[2]]=px+pw;const wait=D.waits[e[3]];cx.fillStyle=colour[D.pipes[e[2]]];cx.globalAlpha=wait?.22:1;cx.fillRect(px,y+(wait?5:2),pw,wait?H-10:H-4);cx.globalAlpha=1;
  if(pw>44&&!wait){cx.fillStyle="#fff";cx.fillText(D.ops[e[3]].slice(0,Math.floor(pw/6)),px+3,y+H-4)}}});
 cx.fillStyle=fg;for(let k=0;k<=8;k++){const t=v0+(v1-v0)*k/8;cx.fillText(t.toFixed(2)+" µs",Math.min(w-50,X(t)),h-6)}}
function pick(ev){const b=cv.getBoundingClientRect(),t=v0+(ev.clientX-b.left-PAD)/(cv.clientWidth-PAD)*(v1-v0),r=rows[Math.floor((ev.clientY-b.top)/H)];if(!r)return;
 return D.cores[r[0]].events.find(e=>e[2]==r[1]&&e[0]<=t&&t<=e[0]+e[1])}
let drag=null;cv.onwheel=e=>{e.preventDefault();const b=cv.getBoundingClientRect(),t=v0+(e.clientX-b.left-PAD)/(cv.clientWidth-PAD)*(v1-v0),k=e.deltaY<0?.8:1.25;v0=Math.max(0,t-(t-v0)*k);v1=Math.min(total,t+(v1-t)*k);draw()};
cv.onmousedown=e=>drag=[e.clientX,v0,v1];onmouseup=()=>drag=null;cv.ondblclick=()=>{v0=0;v1=total;draw()};
cv.onmousemove=e=>{if(drag){const d=(drag[0]-e.clientX)/(cv.clientWidth-PAD)*(drag[2]-drag[1]);if(drag[1]+d>=0&&drag[2]+d<=total){v0=drag[1]+d;v1=drag[2]+d}draw();return}
 const x=pick(e),t=$("tip");if(!x){t.style.display="none";return}const s=D.sites[x[4]],f=D.files[s[0]]||"";t.style.display="block";t.style.left=e.clientX+14+"px";t.style.top=e.clientY+14+"px";
 t.textContent=`${D.ops[x[3]]}  ${x[1].toFixed(4)} µs from ${x[0].toFixed(4)}   ${f.split("/").pop()}:${s[1]}  ${((D.sources[f]||[])[s[1]-1]||"").trim()}`};
cv.onmouseleave=()=>$("tip").style.display="none";onresize=draw;draw();
const cut=D.cores.reduce((n,c)=>n+c.left_out,0),hid=D.core_count-D.cores.length;
const rowsLeft=Math.max(0,rows.length-Math.floor(880/H));
$("left").textContent=(rowsLeft?`${rowsLeft} more rows do not fit (--trace FILE has them all). `:"")+(cut?`${cut.toLocaleString()} later instructions are not drawn. `:"")+(hid?`${hid} more cores are not drawn.`:"");
